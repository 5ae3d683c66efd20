"""Tests of values beside LIKE: small letters, regular expressions, networks; and what they say about each other."""

from __future__ import annotations

import ipaddress
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.model.predicates.test_texts import checked_test, known_test
from contentcast.model.values.folded import Folded, lower_column
from contentcast.model.values.kinds import STRING
from contentcast.model.values.networks import InNetwork, NetworkError, read_address
from contentcast.model.values.patterns import Pattern
from contentcast.model.values.regular import MOST_STATES, Automaton, Regex
from contentcast.model.values.regular_syntax import RegexError
from contentcast.model.values.tests_of_values import have_no_match, implies, imply_together
from contentcast.model.values.value_test import ValueTest

LETTERS = ["a", "b", "A", "é", "\n", "\r", "\x85", "\u2028", "\U0001f600", "_", "5", " "]
PIECES = ["a", "b", "A", ".", "[ab]", "[^a]", "[a-z]", "(a|b)", "(?:ab)", "(|a)", r"\w", r"\s", r"\D", "é", r"\n", "5"]
COUNTS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"]


def some_regex(random: Random) -> str:
    body = "".join(random.choice(PIECES) + random.choice(COUNTS) for _ in range(random.randint(0, 4)))
    if random.random() < 0.3:
        body = f"({body}|{random.choice(PIECES)}){random.choice(COUNTS)}"
    flags = random.choice(["", "", "(?i)", "(?s)", "(?is)"])
    return flags + random.choice(["", "^", r"\A"]) + body + random.choice(["", "", "$", r"\z"])


def some_text(random: Random) -> str:
    return "".join(random.choice(LETTERS) for _ in range(random.randint(0, 5)))


@given(st.integers(0, 2**32))
@settings(max_examples=400)
def test_the_automaton_and_re2_agree(seed: int) -> None:
    random = Random(seed)
    test = Regex.of(some_regex(random))
    texts = [some_text(random) for _ in range(12)]
    assert test.matches_column(pa.array(texts)).tolist() == [test.matches(each) for each in texts], (seed, test.text, texts)


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_every_match_has_the_prefix_and_the_anchor(seed: int) -> None:
    random = Random(seed)
    test = Regex.of(some_regex(random))
    pattern = test.as_pattern()
    for text in (some_text(random) for _ in range(20)):
        if test.matches(text):
            assert text.startswith(test.prefix), (seed, test.text, text)
            assert test.anchor in text, (seed, test.text, text)
        assert pattern is None or pattern.matches(text) == test.matches(text), (seed, test.text, text)


def some_test(random: Random) -> ValueTest:
    like = "".join(random.choice(["a", "b", "%", "_", "é"]) for _ in range(random.randint(0, 4)))
    return random.choice([Pattern.of(like), Folded.of(Pattern.of(like)), Regex.of(some_regex(random))])


@given(st.integers(0, 2**32))
@settings(max_examples=400)
def test_what_tests_say_about_each_other_is_never_wrongly_yes(seed: int) -> None:
    random = Random(seed)
    tests = tuple(some_test(random) for _ in range(random.randint(1, 3)))
    wide = some_test(random)
    implied, nothing = imply_together(tests, wide), have_no_match(tests)
    for text in (some_text(random) for _ in range(30)):
        if all(each.matches(text) for each in tests):
            assert not nothing, (seed, tests, text)
            assert not implied or wide.matches(text), (seed, tests, wide, text)


@pytest.mark.parametrize(
    ("narrow", "wide", "covered"),
    [
        (Regex.of("^ab"), Regex.of("^a"), True),
        (Regex.of("^a"), Regex.of("^ab"), False),
        (Regex.of("^[0-9]{3}$"), Regex.of("[0-9]"), True),
        (Regex.of("^(a|b)+$"), Regex.of("^[a-c]*$"), True),
        (Pattern.of("ab%"), Regex.of("^a"), True),
        (Regex.of(r"^a.*b\z"), Pattern.of("a%"), True),
        (Regex.of(r"(?s)^a.*b\z"), Pattern.of("a%b"), True),
        (Folded.of(Pattern.of("ab%")), Folded.of(Pattern.of("a%")), True),
        (Folded.of(Pattern.of("ab%")), Pattern.of("a%"), False),
        (InNetwork.of("10.1.0.0/16"), InNetwork.of("10.0.0.0/8"), True),
        (InNetwork.of("10.0.0.0/8"), InNetwork.of("10.1.0.0/16"), False),
        (InNetwork.of("2001:db8:1::/48"), InNetwork.of("2001:db8::/32"), True),
    ],
)
def test_covering_that_is_decided(narrow: ValueTest, wide: ValueTest, covered: bool) -> None:
    assert implies(narrow, wide) is covered


def test_tests_without_a_common_match() -> None:
    assert have_no_match((Regex.of("^a"), Regex.of("^b")))
    assert have_no_match((Regex.of("^[a-c]"), Pattern.of("d%")))
    assert have_no_match((InNetwork.of("10.0.0.0/8"), InNetwork.of("11.0.0.0/8")))
    assert have_no_match((Folded.of(Pattern.of("a%")), Folded.of(Pattern.of("b%"))))
    assert not have_no_match((Folded.of(Pattern.of("a%")), Pattern.of("A%")))


def test_an_expression_that_makes_many_states_is_still_read_in_one_pass() -> None:
    """(a|b)*a(a|b){12}: 2^13 states; past MOST_STATES sets of places are carried on."""
    test = Automaton("a[ab]{12}c")
    random = Random(7)
    texts = ["".join(random.choice("ab") for _ in range(3000)) for _ in range(3)]
    for text in texts:
        assert not test.matches(text)
        assert test.matches(text + "abbbbbbbbbbbbc")
    assert len(test.matched) <= MOST_STATES + 1


@pytest.mark.parametrize(
    "text", ["(", ")", "a**", "[", "[]", "[b-a]", "a{2,1}", "{2}", "*", r"\q", r"\x4", "(?x)a", "(?<n>a)", "a$b", r"a\zb", "^*"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(RegexError):
        Regex.of(text)


@given(st.integers(0, 2**32))
def test_networks_are_those_of_the_standard_library(seed: int) -> None:
    random = Random(seed)
    version = random.choice([4, 6])
    bits = 32 if version == 4 else 128
    length = random.randint(0, bits)
    make = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    number = random.getrandbits(bits) >> (bits - length) << (bits - length)
    network = ipaddress.ip_network(f"{make(number)}/{length}")
    test = InNetwork.of(str(network))
    near = make(number ^ (random.getrandbits(bits - length + 3) if length > 3 else random.getrandbits(bits)))
    if version == 6 and (near.ipv4_mapped or network.network_address.ipv4_mapped):  # type: ignore[union-attr]
        return
    assert test.matches(str(near)) == (near in network), (seed, network, near)


def test_a_mapped_address_is_the_address() -> None:
    assert read_address("::ffff:10.1.2.3") == read_address("10.1.2.3")
    assert InNetwork.of("::ffff:10.0.0.0/104") == InNetwork.of("10.0.0.0/8")
    assert not InNetwork.of("::/0").matches("10.1.2.3")
    for text in [
        "",
        "10",
        "10.1.2.3.4",
        "10.1.2.256",
        " 10.1.2.3",
        "10.1.2.3\n",
        "\u0661\u0660.1.2.3",
        "fe80::1%eth0",
        "::g",
        "1" * 100,
    ]:
        assert read_address(text) is None, text


def test_a_network_that_is_none_is_refused_with_one_that_is() -> None:
    with pytest.raises(NetworkError, match=r"write '10\.0\.0\.0/8'"):
        InNetwork.of("10.0.0.1/8")


def test_small_letters_of_a_column() -> None:
    values = ["ABC", None, "ΟΔΟΣ", "İ", "é\u212a"]
    expected = [None if each is None else each.lower() for each in values]
    assert lower_column(pa.array(values)).to_pylist() == expected
    assert lower_column(pa.array(["AB", None])).to_pylist() == ["ab", None]


def test_a_test_is_its_text() -> None:
    for test in [Pattern.of("a%"), Folded.of(Pattern.of("a%")), Regex.of("^a+"), InNetwork.of("10.0.0.0/8")]:
        assert checked_test(STRING, test.text) == known_test(test.text) == test
    for text in ["\\i%%", "\\r(", "\\c10.0.0.1/8", "\\q", "\\c10.0.0.0/08"]:
        with pytest.raises(ValueError, match=r"."):
            checked_test(STRING, text)
