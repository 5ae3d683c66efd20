"""LIKE patterns: matching against a naive matcher, and what implies or excludes what against all short strings."""

import subprocess
import sys
from functools import cache
from itertools import product

import pytest

from contentcast.model.values import patterns
from contentcast.model.values.patterns import Pattern, PatternError, Wildcard, escaped, have_no_match, imply_together, tokens_of

STRINGS = ["".join(letters) for size in range(6) for letters in product("abc", repeat=size)]
"""All up to five letters; c stands for every letter that no pattern names."""

ALL = sorted({Pattern.of("".join(letters)) for size in range(4) for letters in product("ab_%", repeat=size)})
"""Every pattern of up to three of these signs, each once."""


def naive(tokens: list[str | Wildcard], text: str) -> bool:
    """By the definition: % stands for any beginning of what is left."""
    if not tokens:
        return not text
    if tokens[0] is Wildcard.RUN:
        return any(naive(tokens[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and tokens[0] in (Wildcard.ONE, text[0]) and naive(tokens[1:], text[1:])


@cache
def matched(pattern: Pattern) -> frozenset[str]:
    return frozenset(text for text in STRINGS if pattern.matches(text))


def test_matching_is_what_the_definition_says() -> None:
    for pattern in ALL:
        assert matched(pattern) == {text for text in STRINGS if naive(list(pattern.tokens), text)}, pattern


@pytest.mark.parametrize("text", ["a%b%a", "%ab%b", "_%_%a", "%a_b%", "a%%b", "ab%ab%ab", "%aa%a", "__", "%_b_%"])
def test_matching_of_longer_patterns(text: str) -> None:
    assert matched(Pattern.of(text)) == {each for each in STRINGS if naive(tokens_of(text), each)}


def test_equal_patterns_have_one_text() -> None:
    """Of all spellings up to four signs those that match the same strings are the same pattern."""
    by_strings: dict[frozenset[str], set[Pattern]] = {}
    for size in range(5):
        for letters in product("a_%", repeat=size):
            pattern = Pattern.of("".join(letters))
            by_strings.setdefault(matched(pattern), set()).add(pattern)
    assert [each for each in by_strings.values() if len(each) > 1] == []
    assert Pattern.of("%_") == Pattern.of("_%") == Pattern.of("%%_%")
    assert Pattern.of("a%%%b").text == "a%b"


def test_implication_is_exact() -> None:
    for narrow, wide in product(ALL, ALL):
        assert narrow.implies(wide) is (matched(narrow) <= matched(wide)), (narrow, wide)


def test_disjointness_is_exact() -> None:
    for one, other in product(ALL, ALL):
        assert one.disjoint(other) is matched(one).isdisjoint(matched(other)), (one, other)


def test_several_patterns_together_imply_what_none_does_alone() -> None:
    begins, ends, holds = Pattern.of("a%"), Pattern.of("%b"), Pattern.of("a%b")
    assert imply_together((begins, ends), holds)
    assert not begins.implies(holds)
    assert not ends.implies(holds)
    assert not imply_together((begins, Pattern.of("%a")), Pattern.of("a%a"))  # the string 'a'
    assert have_no_match((begins, ends, Pattern.of("_")))
    assert not have_no_match((begins, ends, Pattern.of("__")))
    assert not have_no_match(())
    assert imply_together((), Pattern.of("%"))
    assert not imply_together((), Pattern.of("%a%"))


def test_triples_together_against_all_strings() -> None:
    some = ALL[::4]
    for one, other, wide in product(some, some, ALL[::3]):
        both = matched(one) & matched(other)
        assert imply_together((one, other), wide) is (both <= matched(wide)), (one, other, wide)
        assert have_no_match((one, other, wide)) is (not both & matched(wide)), (one, other, wide)


def test_too_hard_is_answered_with_no_and_soon() -> None:
    """Sixty patterns that begin with % can stand in 2^60 places before the first letter."""
    many = tuple(Pattern.of(f"%{letter}%") for letter in map(chr, range(0x4E00, 0x4E00 + 60)))
    assert have_no_match(many) is False
    letters = "".join(each.text[1] for each in many)
    assert imply_together(many, Pattern.of("_" * len(letters) + "%")) is False  # true, but not found out
    assert imply_together(many[:2], Pattern.of("__%"))
    assert imply_together(many, many[0])


@pytest.mark.parametrize("most", [1, 4, 16])
def test_giving_up_never_turns_into_a_wrong_yes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MOST_STATES", most)
    patterns.forget()
    try:
        for one, other in product(ALL, ALL):
            assert not one.implies(other) or matched(one) <= matched(other)
            assert not one.disjoint(other) or matched(one).isdisjoint(matched(other))
    finally:
        patterns.forget()


# --- escapes


@pytest.mark.parametrize(
    ("text", "escape", "matches", "misses"),
    [
        (r"100\%", "\\", "100%", "1000"),
        (r"a\_b", "\\", "a_b", "axb"),
        (r"a\\%", "\\", "a\\b", "a%"),
        ("100!%", "!", "100%", "1000"),
        ("wow!!%", "!", "wow!x", "wowx"),
        ("%%", "%", "%", "x"),
        (r"\%", "!", "\\x", "%"),
    ],
)
def test_an_escape_takes_the_meaning_of_the_next_sign(text: str, escape: str, matches: str, misses: str) -> None:
    pattern = Pattern.of(text, escape)
    assert pattern.matches(matches)
    assert not pattern.matches(misses)


@pytest.mark.parametrize(
    ("text", "escape", "says"),
    [
        ("a\\", "\\", "the pattern ends in its escape character '\\\\'; write it twice to mean itself"),
        ("%%%", "%", "the pattern ends in its escape character '%'; write it twice to mean itself"),
        (r"a\b", "\\", "the escape character '\\\\' may stand before %, _ or itself, not 'b'"),
        ("a!b", "!", "the escape character '!' may stand before %, _ or itself, not 'b'"),
    ],
)
def test_an_escape_that_escapes_nothing_is_refused(text: str, escape: str, says: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern.of(text, escape)
    assert str(caught.value) == says


@pytest.mark.parametrize("text", ["", "plain", "100%", "a_b", "c:\\temp", "\\%", "%_\\", "\0\U0010ffff", "a\nb"])
def test_escaped_text_matches_itself_alone(text: str) -> None:
    pattern = Pattern.of(escaped(text))
    assert pattern.literal == text
    assert pattern.matches(text)
    assert not pattern.matches(text + "x")
    assert Pattern.of(pattern.text) == pattern


def test_what_a_pattern_says_of_itself() -> None:
    assert Pattern.of("ab%").is_prefix
    assert not Pattern.of("ab_%").is_prefix
    assert not Pattern.of("ab").is_prefix
    assert Pattern.of("%").is_prefix
    assert (Pattern.of(r"a\%b_c").prefix, Pattern.of("%a").prefix) == ("a%b", "")
    assert Pattern.of("a_").literal is None


def test_a_character_is_a_code_point() -> None:
    assert Pattern.of("_").matches("\U0001f600")
    assert not Pattern.of("_").matches("e\u0301")
    assert Pattern.of("a%b").matches("a\n\0b")


def test_many_patterns_are_told_apart_by_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """All hundred read together letter by letter would take seconds; strings that match are easily put together."""
    monkeypatch.setattr(patterns, "_walk", lambda *_: pytest.fail("read letter by letter"))
    wanted = (Pattern.of("begin%"), *(Pattern.of(f"%a{number}b_%") for number in range(100)), Pattern.of("%end"))
    assert not have_no_match(wanted)
    assert not any(imply_together(wanted, Pattern.of(f"%c{number}d%")) for number in range(100))


def test_no_letter_is_left_for_an_example() -> None:
    every = "".join(map(chr, range(0xE000, 0xF8FF)))
    assert not have_no_match((Pattern.of(f"%{every}%"), Pattern.of(f"%{every[::-1]}%")))


# --- what is remembered


REMEMBERING = """
import resource
from contentcast.model.values import patterns
from contentcast.model.values.patterns import Pattern
grown_from = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in range(60):
    pattern = Pattern.of(f"%{number}_" + "ab_c%" * 4_000)
    assert not pattern.matches("abc" * 10)
    assert not pattern.implies(Pattern.of(f"%x{number}%"))
for number in range(2_000):
    pattern = Pattern.of(f"%{number}_x%")
    assert pattern.matches(f"{number}yx")
    assert not pattern.implies(Pattern.of(f"%{number}z%"))
compared = (patterns.reading, patterns._example, patterns._implied, patterns._matchless)
for cache in (patterns._tokens, patterns._compiled, *compared):
    assert cache.weight <= patterns._MOST_KEPT
assert len(patterns._tokens) > 100  # it remembers, though
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown_from)
"""


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    """300 patterns of 20 kB kept 109 MB, while the caches counted patterns; short ones that never come again piled up too."""
    done = subprocess.run([sys.executable, "-c", REMEMBERING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000, f"{done.stdout} kB"


@pytest.mark.parametrize("text", ["%", "a%", "%a_c%", "_", "a__%c", "%a%b%", "abc", "%_", "a%%_c"])
def test_pieces_match_as_the_regular_expression_does(text: str) -> None:
    pattern = Pattern.of(text)
    for string in ["", "a", "abc", "aabcc", "abcabc", "xaxcx", "cab", "abbc", "bab", "ac"]:
        assert patterns.matches_by_pieces(patterns.pieces_of(pattern.text), string) is pattern.matches(string), string
