"""A space: made from Python, files and other people's schemas, the same whichever way; and what its errors hand over."""

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from contentcast.model import Attribute, ContentcastError, Space, SpaceError

EVERY_KIND = Space(
    "trades",
    {
        "issue": Attribute("string", values=("IBM", "SAP")),
        "price": Attribute("float", low=0.0),
        "volume": Attribute("int", low=-(2**63), high=2**63 - 1),
        "halted": Attribute("bool", values=(True,)),
        "traded": Attribute("timestamp", low=datetime(1, 1, 1, tzinfo=UTC), high="9999-12-31T23:59:59.999999Z"),
        "raw": Attribute("bytes", low=b"\x00\xff"),
        "detail.state": "string",
    },
)


# --- made from Python


def test_named_attributes_and_a_mapping_make_the_same_space() -> None:
    named = Space("trades", issue="string", price=Attribute("float", low=0))
    mapped = Space("trades", {"issue": "string", "price": Attribute("float", low=0)})
    both = Space("trades", {"issue": "string"}, price=Attribute("float", low=0))
    assert named == mapped == both
    assert hash(named) == hash(mapped) == hash(both)


def test_a_space_tells_its_attributes_in_their_order() -> None:
    space = Space("trades", {"price": "float", "detail.state": "string", "issue": "string"})
    assert space.names == tuple(space) == ("price", "detail.state", "issue")
    assert (len(space), "detail.state" in space, "state" in space) == (3, True, False)
    assert [space.position(name) for name in space] == [0, 1, 2]
    assert space.arrow_schema == pa.schema([("price", pa.float64()), ("detail.state", pa.string()), ("issue", pa.string())])
    assert repr(space) == "Space('trades', price: float, detail.state: string, issue: string)"


def test_order_names_kinds_and_domains_all_make_a_difference() -> None:
    given = Space("trades", issue="string", price="float")
    others = [
        Space("deals", issue="string", price="float"),
        Space("trades", price="float", issue="string"),
        Space("trades", issue="string", price="int"),
        Space("trades", issue="string", price=Attribute("float", low=0.0)),
        Space("trades", issue="string"),
    ]
    assert all(given != other for other in others)
    assert given != "trades"


def test_a_space_survives_pickling_before_and_after_it_was_asked() -> None:
    fresh = Space("trades", issue="string", price="float")
    assert pickle.loads(pickle.dumps(fresh)) == fresh
    fresh.kinds, fresh.arrow_schema, fresh.position("price")
    again = pickle.loads(pickle.dumps(fresh))
    assert again == fresh
    assert again.kinds == fresh.kinds
    assert pickle.loads(pickle.dumps(EVERY_KIND)) == EVERY_KIND


# --- domains


@pytest.mark.parametrize(
    ("attribute", "inside", "outside"),
    [
        (Attribute("int", low=0, high=7), [0, 7], [-1, 8]),
        (Attribute("int", low=5), [5, 2**63 - 1], [4]),
        (Attribute("float", high=1), [-float("inf"), 1.0], [1.0000000000000002, float("inf")]),
        (Attribute("float", values=(0.0, 2.5)), [-0.0, 2.5], [1.0]),
        (Attribute("string", low="b", high="d"), ["b", "c\U0010ffff", "d"], ["a\U0010ffff", "d\0"]),
        (Attribute("string", values=("", "x")), ["", "x"], ["y", "\0"]),
        (Attribute("bool", values=(False,)), [False], [True]),
        (Attribute("bytes", high=b"\x01"), [b"", b"\x00\xff", b"\x01"], [b"\x01\x00"]),
        (Attribute("timestamp", low="2026-01-01"), [datetime(2026, 1, 1, tzinfo=UTC)], [datetime(2025, 12, 31, tzinfo=UTC)]),
        (Attribute("string"), ["", "\U0010ffff"], []),
    ],
)
def test_what_lies_in_a_domain(attribute: Attribute, inside: list[object], outside: list[object]) -> None:
    assert [value in attribute.domain for value in inside] == [True] * len(inside)
    assert [value in attribute.domain for value in outside] == [False] * len(outside)
    assert attribute.has_domain is bool(outside)


def test_a_domain_is_kept_as_its_kind_keeps_values() -> None:
    assert type(Attribute("float", low=1).low) is float
    assert type(Attribute("int", low=np.int64(1)).low) is int
    assert Attribute("float", values=[np.float64(0.5), 1]).values == (0.5, 1.0)
    berlin = datetime(2026, 7, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert Attribute("timestamp", low=berlin) == Attribute("timestamp", low="2026-07-01T12:00:00Z")
    assert Attribute("bytes", low="AP8=") == Attribute("bytes", low=b"\x00\xff")


def test_a_set_of_values_makes_the_same_attribute_in_every_process() -> None:
    """Python gives the strings of a set in another order in each process."""
    assert Attribute("string", values={"sell", "buy", "hold"}) == Attribute("string", values=("buy", "hold", "sell"))


@pytest.mark.parametrize(
    ("kind", "domain", "says"),
    [
        ("flaot", {}, "there is no kind 'flaot'; did you mean 'float'?"),
        (float, {}, "there is no kind <class 'float'>; the kinds are string, int, float, bool, timestamp, bytes"),
        (None, {}, "there is no kind None"),
        ("int", {"low": 2, "high": 1}, "low 2 is above high 1"),
        ("int", {"low": 2, "values": (1,)}, "a domain is either low/high or values, not both"),
        ("int", {"values": ()}, "values must list at least one value, got ()"),
        ("string", {"values": "IBM"}, "values must list at least one value, got 'IBM'"),
        ("int", {"values": 5}, "values must list at least one value, got 5"),
        ("int", {"values": (1, "2")}, "the domain of an int: '2' is a string, not an int"),
        ("int", {"values": (None,)}, "None is a Python NoneType, not an int"),
        ("int", {"low": 2.0}, "2.0 is a float, not an int"),
        ("int", {"low": True}, "True is a bool, not an int"),
        ("int", {"high": 2**63}, "9223372036854775808 is beyond 64 bits"),
        ("float", {"low": float("nan")}, "NaN is not a value"),
        ("float", {"high": 2**53 + 1}, "9007199254740993 has no exact float"),
        ("bool", {"low": False}, "a bool has no low and high; list its values"),
        ("timestamp", {"low": "soon"}, "'soon' is not a timestamp; write it as '2026-03-01T12:00:00Z'"),
        ("bytes", {"low": "ÿ"}, "'ÿ' is not base64"),
    ],
)
def test_a_domain_without_sense_is_refused(kind: str, domain: dict[str, object], says: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Attribute(kind, **domain)  # type: ignore[arg-type]
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("",), "a space needs a name, got ''"),
        ((None,), "a space needs a name, got None"),
        (("trades",), "space trades has no attributes; name them: Space('trades', price='float')"),
        (("trades", ["price"]), "attributes come as a mapping, {'price': 'float'}, not ['price']"),
        (("trades", {"": "int"}), "space trades: '' cannot be an attribute name"),
        (("trades", {5: "int"}), "space trades: 5 cannot be an attribute name"),
        (("trades", {"a`b": "int"}), "space trades: 'a`b' cannot be an attribute name"),
        (("trades", {"\ud800": "int"}), "cannot be an attribute name"),
        (("trades", {"price": "flaot"}), "space trades, attribute price: there is no kind 'flaot'; did you mean 'float'?"),
    ],
)
def test_a_space_without_sense_is_refused(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space(*arguments)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_an_attribute_given_twice_is_not_silently_the_last_one() -> None:
    with pytest.raises(SpaceError, match="space trades names the attribute price twice"):
        Space("trades", {"price": "float"}, price="int")


def test_an_unknown_attribute_is_answered_with_the_nearest_or_with_what_there_is() -> None:
    space = Space("trades", issue="string", price="float")
    with pytest.raises(SpaceError, match=r"trades has no attribute 'prise'; did you mean 'price'\?"):
        space["prise"]
    with pytest.raises(SpaceError, match=r"trades has no attribute 'zzz'; it has issue, price$"):
        space["zzz"]
    wide = Space("wide", {f"a{number}": "int" for number in range(99)})
    with pytest.raises(SpaceError, match=r"it has a0, .*, a11, \.\.\.$"):
        wide["nothing like it"]


# --- files


def test_a_description_of_every_kind_goes_round(tmp_path) -> None:
    assert Space.from_dict(EVERY_KIND.to_dict()) == EVERY_KIND
    assert Space.from_dict(json.loads(json.dumps(EVERY_KIND.to_dict()))) == EVERY_KIND
    EVERY_KIND.save(tmp_path / "trades.json")
    assert Space.load(tmp_path / "trades.json") == EVERY_KIND
    assert Space.load(str(tmp_path / "trades.json")) == EVERY_KIND


def test_an_attribute_without_domain_is_described_by_its_kind_alone() -> None:
    assert Space("trades", price="float", volume=Attribute("int", low=0)).to_dict() == {
        "name": "trades",
        "attributes": {"price": "float", "volume": {"kind": "int", "low": 0}},
    }


def test_a_toml_file_may_write_timestamps_as_toml_does(tmp_path) -> None:
    path = tmp_path / "trades.TOML"
    path.write_text(
        'name = "trades"\n[attributes]\nissue = "string"\n"detail.state" = "string"\n'
        "traded = { kind = 'timestamp', low = 2026-03-01T14:00:00+02:00 }\n"
        "price = { kind = 'float', low = 0, high = inf }\n"
    )
    assert Space.load(path) == Space(
        "trades",
        {
            "issue": "string",
            "detail.state": "string",
            "traded": Attribute("timestamp", low=datetime(2026, 3, 1, 12, tzinfo=UTC)),
            "price": Attribute("float", low=0.0, high=float("inf")),
        },
    )


def test_a_byte_order_mark_is_passed_over(tmp_path) -> None:
    path = tmp_path / "trades.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(EVERY_KIND.to_dict()).encode())
    assert Space.load(path) == EVERY_KIND


def test_a_toml_file_is_not_filled_with_json(tmp_path) -> None:
    with pytest.raises(SpaceError, match=r"saved as JSON.*name it trades\.json"):
        EVERY_KIND.save(tmp_path / "trades.toml")
    assert not (tmp_path / "trades.toml").exists()


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ([], 'lacks its attributes; write {"name": ..., "attributes": {"price": "float"}}'),
        ({"name": "trades"}, "lacks its attributes"),
        ({"name": "trades", "attributes": ["price"]}, "lacks its attributes"),
        ({"name": "trades", "attributes": {"price": "float"}, "atributes": {}}, "does not know atributes"),
        ({"attributes": {"price": "float"}}, "a space needs a name, got ''"),
        ({"name": "trades", "attributes": {"price": 5}}, "space trades, attribute price: there is no kind 5"),
        ({"name": "t", "attributes": {"price": {"low": 5}}}, "attribute price lacks its kind; it may say kind, low, high and"),
        ({"name": "t", "attributes": {"price": {"kind": "float", "min": 5}}}, "attribute price does not know min; it may say"),
        ({"name": "t", "attributes": {"price": {"kind": "float", "low": "5"}}}, "attribute price: the domain of a float: '5'"),
    ],
)
def test_a_description_that_does_not_describe_is_refused(described: object, says: str, tmp_path) -> None:
    with pytest.raises(SpaceError) as caught:
        Space.from_dict(described)  # type: ignore[arg-type]
    assert says in str(caught.value)
    path = tmp_path / "space.json"
    path.write_text(json.dumps(described))
    with pytest.raises(SpaceError) as caught:
        Space.load(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("space.json", b"{", "is not JSON: Expecting property name"),
        ("space.toml", b"name =", "is not TOML: Invalid value"),
        ("space", b"\xff", "is not JSON: 'utf-8' codec"),
        (
            "rules.txt",
            b"price < 1\n",
            "rules.txt is not JSON: Expecting value: line 1 column 1 (char 0). A space is a .toml or .json",
        ),
        ("space.json", b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_that_is_something_else_is_refused(name: str, content: bytes, says: str, tmp_path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpaceError) as caught:
        Space.load(tmp_path / name)
    assert says in str(caught.value)


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path) -> None:
    with pytest.raises(SpaceError, match="there is no space file"):
        Space.load(tmp_path / "none.json")
    with pytest.raises(SpaceError, match="cannot be read"):
        Space.load(tmp_path)


# --- other people's schemas


def test_a_space_from_an_arrow_schema() -> None:
    schema = pa.schema(
        [
            ("plain", pa.string()),
            ("large", pa.large_string()),
            ("view", pa.string_view()),
            ("coded", pa.dictionary(pa.int8(), pa.large_string())),
            ("small", pa.int8()),
            ("unsigned", pa.uint64()),
            ("half", pa.float16()),
            ("flag", pa.bool_()),
            ("second", pa.timestamp("s")),
            ("nano", pa.timestamp("ns", tz="Europe/Berlin")),
            ("raw", pa.large_binary()),
            ("fixed", pa.binary(4)),
            ("seen", pa.binary_view()),
            ("detail", pa.struct([("state", pa.string()), ("inner", pa.struct([("depth", pa.int32())]))])),
        ]
    )
    kinds = {name: attribute.kind for name, attribute in Space.from_arrow("things", schema).items()}
    assert kinds == {
        "plain": "string",
        "large": "string",
        "view": "string",
        "coded": "string",
        "small": "int",
        "unsigned": "int",
        "half": "float",
        "flag": "bool",
        "second": "timestamp",
        "nano": "timestamp",
        "raw": "bytes",
        "fixed": "bytes",
        "seen": "bytes",
        "detail.state": "string",
        "detail.inner.depth": "int",
    }


def test_a_spaces_own_arrow_schema_makes_it_again() -> None:
    space = Space("trades", {"issue": "string", "price": "float", "detail.state": "string", "raw": "bytes", "t": "timestamp"})
    assert Space.from_arrow("trades", space.arrow_schema) == space


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (pa.schema([("a", pa.list_(pa.date32()))]), "column a is list<item: date32[day]>, but an attribute is one of string"),
        (pa.schema([("a", pa.list_(pa.list_(pa.int8())))]), "column a is list<item: list<item: int8>>"),
        (pa.schema([("a", pa.list_(pa.struct([("b", pa.list_(pa.int8()))])))]), "column a.b is a list of list of int"),
        (pa.schema([("a", pa.decimal128(5, 2))]), "column a is decimal128(5, 2)"),
        (pa.schema([("a", pa.date32())]), "column a is date32[day]"),
        (pa.schema([("a", pa.null())]), "column a is null"),
        (pa.schema([("a", pa.struct([("b", pa.duration("s"))]))]), "column a.b is duration[s]"),
        (pa.schema([("a", pa.int8()), ("a", pa.string())]), "the schema has the column a twice; rename or drop one"),
        (pa.schema([("a", pa.struct([("b", pa.int8())])), ("a.b", pa.int8())]), "the schema has the column a.b twice"),
        (pa.schema([]), "space things has no attributes"),
    ],
)
def test_an_arrow_schema_that_cannot_be_a_space(schema: pa.Schema, says: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space.from_arrow("things", schema)
    assert says in str(caught.value)


def test_a_space_from_a_spark_schema() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    schema = types.StructType(
        [
            types.StructField("issue", types.StringType()),
            types.StructField("tiny", types.ByteType()),
            types.StructField("small", types.ShortType()),
            types.StructField("plain", types.IntegerType()),
            types.StructField("volume", types.LongType(), nullable=False),
            types.StructField("ratio", types.FloatType()),
            types.StructField("price", types.DoubleType()),
            types.StructField("halted", types.BooleanType()),
            types.StructField("traded", types.TimestampType()),
            types.StructField("local", types.TimestampNTZType()),
            types.StructField("raw", types.BinaryType()),
            types.StructField(
                "detail",
                types.StructType(
                    [
                        types.StructField("state", types.StringType()),
                        types.StructField("inner", types.StructType([types.StructField("depth", types.LongType())])),
                    ]
                ),
            ),
        ]
    )
    kinds = [attribute.kind for _, attribute in Space.from_spark("things", schema).items()]
    names = Space.from_spark("things", schema).names
    assert names[-2:] == ("detail.state", "detail.inner.depth")
    assert kinds == (
        ["string", "int", "int", "int", "int", "float", "float", "bool", "timestamp", "timestamp", "bytes", "string", "int"]
    )


def test_a_spark_schema_that_cannot_be_a_space() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    for strange in (types.DecimalType(10, 2), types.DateType(), types.ArrayType(types.DateType())):
        schema = types.StructType([types.StructField("d", types.StructType([types.StructField("a", strange)]))])
        with pytest.raises(SpaceError, match=r"column d\.a is .*, but an attribute is one of .*; drop it or cast it first"):
            Space.from_spark("things", schema)
    twice = types.StructType([types.StructField("a", types.LongType()), types.StructField("a", types.StringType())])
    with pytest.raises(SpaceError, match="the schema has the column a twice"):
        Space.from_spark("things", twice)


def test_every_error_of_a_space_is_a_contentcast_error_and_a_value_error() -> None:
    assert issubclass(SpaceError, ContentcastError)
    assert issubclass(ContentcastError, ValueError)
