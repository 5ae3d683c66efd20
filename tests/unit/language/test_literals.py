r"""Literals as Spark reads them. The expected values of the escapes are Spark 4.1's own, from SELECT '\...'."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from contentcast.language import PredicateError, parse_predicate
from contentcast.language.literals import read_float, read_hex, read_number, read_string, read_timestamp
from contentcast.model import Space

THINGS = Space("things", s="string", i="int", f="float", t="timestamp", y="bytes")


# --- strings

SAME_AFTER_A_BACKSLASH = sorted(set(map(chr, range(32, 127))) - set("0bnrtZ%_") - set("uU"))


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("''", ""),
        ('""', ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        ('"say ""hi"""', 'say "hi"'),
        ("'\"\"'", '""'),
        ("\"''\"", "''"),
        (r'"\""', '"'),
        (r"'\0'", "\0"),
        (r"'\b\n\r\t\Z'", "\b\n\r\t\x1a"),
        (r"'\\'", "\\"),
        (r"'\\\\'", "\\\\"),
        (r"'\%\_'", r"\%\_"),  # for LIKE to read
        (r"'\\%'", r"\%"),
        (r"'\u0041'", "A"),
        (r"'\u004'", "u004"),  # three digits are no escape
        (r"'\U0001F600'", "\U0001f600"),
        (r"'\U0001F60'", "U0001F60"),
        (r"'\ud83d\ude00'", "\U0001f600"),  # a pair of surrogates is one character
        (r"'\101'", "A"),
        (r"'\101x\000'", "Ax\0"),
        (r"'\177'", "\x7f"),
        (r"'\200'", "200"),  # octal ends at 177
        (r"'\377'", "377"),
        (r"'\12'", "12"),
        (r"'\08'", "\x008"),
        ("'a\\\nb'", "a\nb"),
        ("'a\nb'", "a\nb"),
        ("'\\é\\😀'", "é😀"),
        ("'\U0010ffff\ue000'", "\U0010ffff\ue000"),
        ("'-- no comment'", "-- no comment"),
    ],
)
def test_strings_and_their_escapes(raw: str, value: str) -> None:
    assert read_string(raw) == value
    assert parse_predicate(THINGS, f"s = {raw}") == parse_predicate(THINGS, f"{raw} = s")
    assert parse_predicate(THINGS, f"s = {raw}").accepts({"s": value})


@pytest.mark.parametrize("character", SAME_AFTER_A_BACKSLASH)
def test_any_other_character_after_a_backslash_is_itself(character: str) -> None:
    assert read_string(f"'a\\{character}b'") == f"a{character}b"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (r"'\U00110000'", r"\U00110000 is beyond U+10FFFF, the last character"),
        (r"'\UFFFFFFFF'", r"\UFFFFFFFF is beyond U+10FFFF"),
        (r"'\ud800'", r"'\ud800' holds a lone surrogate, which is not Unicode text"),
        (r"'\ude00\ud83d'", "holds a lone surrogate"),
        ("'\ud800'", r"'\ud800' holds a lone surrogate"),
    ],
)
def test_what_is_no_unicode_is_refused_wherever_a_string_may_stand(raw: str, says: str) -> None:
    for text in (
        f"s = {raw}",
        f"s LIKE {raw}",
        f"startswith(s, {raw})",
        f"t = TIMESTAMP {raw}",
        f"i = {raw}",
        f"s IN ('a', {raw})",
    ):
        with pytest.raises(PredicateError) as caught:
            parse_predicate(THINGS, text)
        assert says in caught.value.reason
        assert caught.value.offset == text.index(raw)


# --- numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("9223372036854775808", 2**63),
        ("1.50", Decimal("1.50")),
        ("5.", Decimal("5")),
        (".5", Decimal("0.5")),
        ("1e3", Decimal("1e3")),
        ("1E-3", Decimal("0.001")),
        ("1.5e+2", Decimal("150")),
        ("0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
    ],
)
def test_numbers_are_read_exactly(text: str, value: int | Decimal) -> None:
    assert read_number(text) == value
    assert read_number(text, negative=True) == -value
    assert type(read_number(text)) is type(value)


@pytest.mark.parametrize("text", ["1e999999999999", "9" * 10**6, "123456789" * 10])
def test_a_number_without_measure_is_beyond_every_int_and_costs_nothing(text: str) -> None:
    assert read_number(text) > 2**63
    assert read_number(text, negative=True) < -(2**63)
    assert parse_predicate(THINGS, f"i < {text}", most_chars=None) == parse_predicate(THINGS, "i IS NOT NULL")


def test_floats_are_the_nearest_double() -> None:
    assert read_float("0.1") == 0.1
    assert read_float("9007199254740993") == 9007199254740992.0
    assert read_float("1e-400") == 0.0
    assert math.copysign(1, read_float("0", negative=True)) == 1  # no -0.0: it equals 0.0
    for text in ("1e309", "9" * 400, "1e999999999999"):
        with pytest.raises(ValueError, match="is beyond the range of a float"):
            read_float(text)


@pytest.mark.parametrize("text", ["3e", "1e+", "1_000", "٣", "²", "0x1F", "", ".", "inf", "nan", "1.2.3"])
def test_what_is_no_number(text: str) -> None:
    for read in (read_number, read_float):
        with pytest.raises(ValueError, match="is not a number"):
            read(text)


@pytest.mark.parametrize(
    "text", ["i = 5L", "i = 5S", "i = 5Y", "i = 5D", "i = 5.0", "i = +5", "i = (5)", "i = 5e0", "i = 50e-1"]
)
def test_five_by_other_names(text: str) -> None:
    assert parse_predicate(THINGS, text) == parse_predicate(THINGS, "i = 5")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("i < 1.5", "i <= 1"),
        ("i <= -1.5", "i <= -2"),
        ("i > 1.5", "i >= 2"),
        ("i >= -1.5", "i >= -1"),
        ("i = 1.5", "FALSE"),
        ("i <> 1.5", "i IS NOT NULL"),
        ("i BETWEEN 0.5 AND 2.5", "i IN (1, 2)"),
        ("i IN (1, 1.5, 2.0)", "i IN (1, 2)"),
        ("i < 9223372036854775808", "i IS NOT NULL"),
        ("i >= 9223372036854775807.5", "FALSE"),
        ("i > -9223372036854775809", "i IS NOT NULL"),
        ("i <= -9223372036854775808", "i = -9223372036854775808"),
        ("i <=> 1.5", "FALSE"),
        ("NOT i <=> 1.5", "TRUE"),
        ("NOT i = 99999999999999999999", "i IS NOT NULL"),
    ],
)
def test_an_int_meets_any_number_exactly(text: str, same: str) -> None:
    assert parse_predicate(THINGS, text) == parse_predicate(THINGS, same)


# --- timestamps


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-3-1 2:3", datetime(2026, 3, 1, 2, 3, tzinfo=UTC)),
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01 12:00:00 UTC", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01 12:00:00.5", datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC)),
        ("2026-03-01 12:00:00.123456000", datetime(2026, 3, 1, 12, 0, 0, 123_456, UTC)),
        ("2026-03-01 12:00:00+02:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01 12:00:00-0230", datetime(2026, 3, 1, 14, 30, tzinfo=UTC)),
        ("2026-03-01 12:00:00+2", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01 12:00:00+18:00", datetime(2026, 2, 28, 18, tzinfo=UTC)),
        ("2026-07-01 12:00:00 Europe/Vienna", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-01-01 12:00:00 Europe/Vienna", datetime(2026, 1, 1, 11, tzinfo=UTC)),
        ("2026-01-01 12:00:00 America/Argentina/Buenos_Aires", datetime(2026, 1, 1, 15, tzinfo=UTC)),
        ("2026-01-01 12:00:00 America/Port-au-Prince", datetime(2026, 1, 1, 17, tzinfo=UTC)),
        ("2026-01-01 12:00:00 Etc/GMT+5", datetime(2026, 1, 1, 17, tzinfo=UTC)),
        ("0001-01-01 00:00:00", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
    ],
)
def test_timestamps(text: str, instant: datetime) -> None:
    assert read_timestamp(text) == instant
    assert parse_predicate(THINGS, f"t = TIMESTAMP '{text}'").accepts({"t": instant})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soon", "'soon' is not a timestamp; write TIMESTAMP '2026-03-01 12:00:00'"),
        ("2026-03", "is not a timestamp"),
        ("26-03-01", "is not a timestamp"),
        ("٢٠٢٦-03-01", "is not a timestamp"),
        ("2026-02-30", "day is out of range for month"),
        ("2026-03-01 24:00:00", "hour must be in 0..23"),
        ("2026-03-01 12:00:60", "second must be in 0..59"),
        ("2026-03-01 12:00:00.0000001", "is finer than a microsecond"),
        ("2026-03-01 12:00:00+19:00", "no zone is at +19:00 from UTC"),
        ("2026-03-01 12:00:00+01:60", "no zone is at +01:60 from UTC"),
        ("2026-03-01 12:00:00 Europe/Vulcan", "there is no time zone Europe/Vulcan"),
        ("2026-03-01 12:00:00 America/Argentina", "there is no time zone America/Argentina"),  # a folder of zones
        ("2026-03-01 12:00:00 A/../../etc/passwd", "is not a timestamp"),
        ("2026-03-01 12:00:00 CET", "is not a timestamp"),
        ("0001-01-01 00:00:00+01:00", "is not a timestamp"),
        ("9999-12-31 23:59:59-01:00", "is not a timestamp"),
    ],
)
def test_what_is_no_timestamp(text: str, says: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_predicate(THINGS, f"t > TIMESTAMP '{text}'")
    assert says in caught.value.reason


def test_a_date_is_a_midnight_and_has_no_time_of_its_own() -> None:
    assert read_timestamp("2026-03-01", date_only=True) == datetime(2026, 3, 1, tzinfo=UTC)
    for text in ("2026-03-01 12:00", "2026-03-01Z"):
        with pytest.raises(ValueError, match="is not a date; write DATE '2026-03-01'"):
            read_timestamp(text, date_only=True)


# --- bytes


def test_hex() -> None:
    assert read_hex("") == b""
    assert read_hex("1F00") == read_hex("1f00") == b"\x1f\x00"
    assert read_hex("F") == b"\x0f"
    with pytest.raises(ValueError, match="holds something else than hex digits"):
        read_hex("0G")
