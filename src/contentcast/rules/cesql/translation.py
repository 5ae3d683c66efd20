"""An expression of CloudEvents SQL as a clause of our language.

    subject LIKE 'orders/%' AND LENGTH(id) > 3   ->   startswith(subject, 'orders/') AND id LIKE '____%'

Each node becomes a constant, a column (an attribute, perhaps within a function), or a `Truth`. Comparing a column with a
constant is a test of ours; comparing two columns, and arithmetic over one, is refused.
Departs from the specification in what attributes are: they have the kind that the space declares (string, int or bool), where
CloudEvents sends text. A cast of text to a number is refused, since which texts are numbers cannot be looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final, NoReturn

from contentcast.model.space import Space
from contentcast.model.values.patterns import Pattern as LikePattern
from contentcast.model.values.patterns import escaped
from contentcast.rules.attributes import COMPUTED, WrongAttribute, find_attribute
from contentcast.rules.cesql import functions
from contentcast.rules.cesql.constants import PARAMETERS, Const, arithmetic, call, cast
from contentcast.rules.cesql.functions import Column, Unsayable
from contentcast.rules.cesql.grammar import Binary, Call, Exists, In, Like, Literal, Name, Node, Unary, read_expression
from contentcast.rules.cesql.truth import ALWAYS, ERROR, NEVER, TooLarge, Truth, all_true, any_true, differ, opposite
from contentcast.rules.clauses import ONE, RUN, Clause, Pattern, Plain, all_of, any_of, is_absent, is_present, joined, quoted
from contentcast.rules.errors import RuleError

TYPES: Final = {"string": "String", "int": "Integer", "bool": "Boolean"}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOGIC: Final[dict[str, Callable[[list[Truth]], Truth]]] = {
    "and": all_true,
    "or": any_true,
    "xor": lambda parts: reduce(lambda right, left: differ(left, right), reversed(parts)),
}

Found = Const | Column | Truth


def cesql_clause(space: Space, expression: str) -> Clause:
    if not isinstance(expression, str):
        raise RuleError.in_json("", f"an expression is a text, not {type(expression).__name__}")
    try:
        return _Expression(space, expression).clause()
    except RecursionError:  # 1 + 1 + 1 + ..., in which each operator holds the one before it
        raise RuleError.in_text(expression, 0, "too many operators in a row; split the expression into several rules") from None


class _Expression:
    def __init__(self, space: Space, text: str) -> None:
        self.space, self.text = space, text

    def clause(self) -> Clause:
        root = read_expression(self.text)
        try:
            found = self._found(root)
        except TooLarge:
            self._refuse(
                root.at, "with what may be missing written out the expression is too large; split it into several rules"
            )
        if not isinstance(found, Truth) and found.type != "Boolean":
            self._refuse(root.at, f"the expression gives {_a(found.type)}, and a filter passes an event only for true")
        return self._truth(found, root.at).yes

    def _refuse(self, at: int, reason: str) -> NoReturn:
        raise RuleError.in_text(self.text, at, reason)

    # --- nodes

    def _found(self, node: Node) -> Found:
        match node:
            case Literal(value, _):
                return Const(value)
            case Name(name, at):
                return self._column(name, at)
            case Exists(name, at):
                subject = self._subject(name, at)
                return Truth(is_present(subject), is_absent(subject))
            case Unary("not", part, at):
                return opposite(self._truth(self._found(part), at))
            case Unary(_, part, at):
                return self._arithmetic("-", Const(0), self._found(part), at)
            case Binary("and" | "or" | "xor"):
                return self._chain(node)
            case Binary(("=" | "!=" | "<" | "<=" | ">" | ">=") as op, left, right, at):
                return self._compared(self._found(left), op, self._found(right), at)
            case Binary(op, left, right, at):
                return self._arithmetic(op, self._found(left), self._found(right), at)
            case Like(part, pattern, negated, at):
                found = self._like(self._found(part), pattern, at)
                return opposite(found) if negated else found
            case In(part, items, negated, at):
                found = self._in(self._found(part), [self._found(each) for each in items], at)
                return opposite(found) if negated else found
            case Call(name, arguments, at):
                return self._call(name, [self._found(each) for each in arguments], at)

    def _chain(self, node: Node) -> Truth:
        """Operators are read from the right, so a long chain is a deep tree; it is walked without recursion."""
        parts: list[Truth] = []
        ops: list[str] = []
        while isinstance(node, Binary) and node.op in _LOGIC:
            parts.append(self._truth(self._found(node.left), node.at))
            ops.append(node.op)
            node = node.right
        parts.append(self._truth(self._found(node), node.at))
        while ops:
            count = next((at for at, each in enumerate(reversed(ops)) if each != ops[-1]), len(ops))
            parts[-count - 1 :] = [_LOGIC[ops[-1]](parts[-count - 1 :])]
            del ops[-count:]
        return parts[0]

    def _subject(self, name: str, at: int) -> str:
        try:
            find_attribute(self.space, name)
        except WrongAttribute as reason:
            self._refuse(at, str(reason))
        return quoted(name)

    def _column(self, name: str, at: int) -> Column:
        subject = self._subject(name, at)
        kind = self.space.kinds[name]
        if kind.name not in TYPES:
            self._refuse(
                at,
                f"{name} is {kind.article}, and CloudEvents SQL has strings, integers and booleans; declare it as a string, "
                "or write the rule in our language",
            )
        return Column(name, subject, TYPES[kind.name])

    # --- truth

    def _truth(self, found: Found, at: int) -> Truth:
        """Cast to Boolean."""
        match found:
            case Truth():
                return found
            case Const():
                known = cast(found, "Boolean")
                return ERROR if known.failed else ALWAYS if known.value else NEVER
        return self._saying(at, lambda: functions.as_truth(found))

    def _saying(self, at: int, say: Callable[[], Truth]) -> Truth:
        try:
            return say()
        except Unsayable as reason:
            self._refuse(at, str(reason))

    # --- comparisons

    def _compared(self, left: Found, op: str, right: Found, at: int) -> Truth:
        """For = and != the type of the right side decides, for the others both are integers."""
        wanted = "Integer" if op not in ("=", "!=") else "Boolean" if isinstance(right, Truth) else right.type
        if isinstance(left, Const) and isinstance(right, Const):
            return _truth_of(_compare_constants(op, cast(left, wanted), cast(right, wanted)))
        if wanted == "Boolean":
            same = opposite(differ(self._truth(left, at), self._truth(right, at)))
            return same if op == "=" else opposite(same)
        if isinstance(right, Const):
            return self._against(left, op, cast(right, wanted), wanted, at)
        if isinstance(left, Const):
            return self._against(right, _MIRRORED[op], cast(left, wanted), wanted, at)
        self._refuse(
            at,
            f"two attributes are compared; {COMPUTED}",
        )

    def _against(self, found: Found, op: str, constant: Const, wanted: str, at: int) -> Truth:
        if constant.failed:
            return ERROR
        if isinstance(found, Truth):
            return _truth_against(found, op, constant)
        assert isinstance(found, Column)
        return self._saying(at, lambda: functions.compared(found, op, constant.value, wanted))

    def _in(self, found: Found, items: list[Found], at: int) -> Truth:
        """The left side's type is the one to cast to."""
        constants = []
        for each in items:
            if not isinstance(each, Const):
                self._refuse(at, "IN takes literals; compare an attribute with another through a transform that computes it")
            constants.append(each)
        wanted = "Boolean" if isinstance(found, Truth) else found.type
        given = [cast(each, wanted) for each in constants]
        if any(each.failed for each in given):
            return ERROR
        if isinstance(found, Const):
            return _truth_of(Const(any(each.value == found.value for each in given), found.failed))
        if isinstance(found, Column) and not found.function and wanted != "Boolean":
            return functions.one_of(found, [each.value for each in given])
        tests = [self._compared(found, "=", each, at) for each in given]
        return Truth(
            yes=any_of(each.yes for each in tests),
            no=all_of(each.no for each in tests),
            names=tests[0].names,
            total=all(each.total for each in tests),
            yes_needs_all=all(each.yes_needs_all and each.no_needs_all for each in tests),
            no_needs_all=all(each.yes_needs_all and each.no_needs_all for each in tests),
        )

    def _like(self, found: Found, text: str, at: int) -> Truth:
        pattern = _pattern(text)
        if isinstance(found, Const):
            given = cast(found, "String")
            return _truth_of(Const(_matches(str(given.value), pattern), given.failed))
        if isinstance(found, Truth):
            self._refuse(at, "LIKE asks of a string, not of a condition")
        return self._saying(at, lambda: functions.like_column(found, pattern))

    # --- functions and arithmetic

    def _call(self, name: str, arguments: list[Found], at: int) -> Found:
        if name not in PARAMETERS:
            self._refuse(at, f"there is no function {name}; there are {', '.join(PARAMETERS)}")
        types = PARAMETERS[name](len(arguments))
        if types is None:
            self._refuse(at, f"{name} does not take {len(arguments)} arguments")
        if all(isinstance(each, Const) for each in arguments):
            return call(name, [each for each in arguments if isinstance(each, Const)])
        if name == "BOOL":
            return self._truth(arguments[0], at)
        columns = [each for each in arguments if isinstance(each, Column)]
        if len(columns) != 1 or any(isinstance(each, Truth) for each in arguments):
            self._refuse(
                at, f"{name} takes one attribute here, beside literals; let a transform compute the rest as an attribute"
            )
        rest = [cast(each, wanted) if isinstance(each, Const) else each for each, wanted in zip(arguments, types, strict=True)]
        if any(isinstance(each, Const) and each.failed for each in rest):
            return Const(False, True)
        try:
            return functions.apply(name, [each for each in rest if not isinstance(each, Truth)])
        except Unsayable as reason:
            self._refuse(at, str(reason))

    def _arithmetic(self, op: str, left: Found, right: Found, at: int) -> Const:
        if isinstance(left, Const) and isinstance(right, Const):
            return arithmetic(op, left, right)
        self._refuse(
            at,
            f"arithmetic over attributes; {COMPUTED}",
        )


def _truth_of(constant: Const) -> Truth:
    return ERROR if constant.failed else ALWAYS if constant.value else NEVER


def _truth_against(found: Truth, op: str, constant: Const) -> Truth:
    """A condition as 'true' and 'false', or as 1 and 0."""
    values = ("true", "false") if constant.type == "String" else (1, 0)
    yes, no = (bool(_compare_constants(op, Const(each), constant).value) for each in values)
    if yes == no:
        nothing = Truth(
            any_of([found.yes, found.no]), any_of([]), found.names, found.total, found.yes_needs_all and found.no_needs_all
        )
        return nothing if yes else opposite(nothing)
    return found if yes else opposite(found)


def _compare_constants(op: str, left: Const, right: Const) -> Const:
    one, other = left.value, right.value
    if op in ("=", "!="):
        return Const((one == other) == (op == "="), left.failed or right.failed)
    first, second = int(one), int(other)
    found = {"<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second}[op]
    return Const(found, left.failed or right.failed)


def _pattern(text: str) -> Pattern:
    """A backslash takes its meaning from % and _; any other one is a character."""
    parts: list[Plain | str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("%", "_") and at + 1 < len(text):
            at += 1
            parts.append(Plain(text[at]))
        else:
            parts.append(RUN if text[at] == "%" else ONE if text[at] == "_" else Plain(text[at]))
        at += 1
    return joined(parts)


def _matches(text: str, pattern: Pattern) -> bool:
    """By a pattern of ours, in linear time: Python's `.*a.*a.*a` tries every way to part the text."""
    return LikePattern.of("".join(escaped(each.text) if isinstance(each, Plain) else each for each in pattern)).matches(text)


def _a(type_: str) -> str:
    return "an integer" if type_ == "Integer" else f"a {type_.lower()}"
