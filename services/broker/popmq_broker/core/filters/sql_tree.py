"""An SQL filter as a tree, and the tree as a function.

The functions take a record's property string and answer True, False or None, unknown. Only True
is a match. `AND` and `OR` look at what is right of them only when they have to: a comparison that
is not possible there does no harm.

Source: RocketMQ LogicExpression, UnaryExpression, ComparisonExpression, PropertyExpression.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from popmq_broker.core.filters.sql_values import Long, Value, order, order_of_numbers
from popmq_common.records.properties import NAME_END, value_of

DEPTH_MAX: Final = 32
"""Levels of a tree; one call within another each."""

Evaluate = Callable[[bytes], Value | None]


class TooDeep(Exception):
    def __init__(self, column: int) -> None:
        super().__init__(column)
        self.column = column


@dataclass(frozen=True, slots=True)
class Node:
    column: int
    """Where it begins in the expression, or its operator; the first character is 1."""


@dataclass(frozen=True, slots=True)
class Constant(Node):
    value: Value | None


@dataclass(frozen=True, slots=True)
class Property(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Negative(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """A property where a condition is due: it is text, which is never true."""

    operand: Property


@dataclass(frozen=True, slots=True)
class All(Node):
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any(Node):
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal(Node):
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Ordered(Node):
    sign: str
    """>, >=, < or <="""
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class In(Node):
    operand: Property
    texts: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class SubstringTest(Node):
    """CONTAINS, STARTSWITH or ENDSWITH."""

    word: str
    operand: Node
    text: str
    negated: bool


def function(node: Node, depth: int = 1) -> Evaluate:
    """Raises `TooDeep`."""
    if depth > DEPTH_MAX:
        raise TooDeep(node.column)

    def inner(operand: Node) -> Evaluate:
        return function(operand, depth + 1)

    match node:
        case Constant(_, value):
            return lambda properties: value
        case Property(_, name):
            return _property(name)
        case Negative(_, operand):
            return _negative(inner(operand))
        case Not(_, operand):
            return _not(inner(operand))
        case Truth(_, operand):
            return _truth(inner(operand))
        case All(_, parts):
            return _all([inner(part) for part in parts])
        case Any(_, parts):
            return _any([inner(part) for part in parts])
        case Equal(_, left, right):
            return _equal(inner(left), inner(right))
        case Ordered(_, sign, left, right):
            return _ordered(sign, inner(left), inner(right))
        case IsNull(_, operand):
            known = inner(operand)
            return lambda properties: known(properties) is None
        case In(_, operand, texts, negated):
            return _in(inner(operand), texts, negated)
        case SubstringTest(_, word, operand, text, negated):
            return _part(word, inner(operand), text, negated)
    raise AssertionError(node)


def _property(name: str) -> Evaluate:
    head = (name + NAME_END).encode()
    if len(name) > 1:
        return lambda properties: value_of(properties, head)
    # an item of two characters is passed over, see popmq_common/records/properties.py
    return lambda properties: value_of(properties, head) or None


def _negative(operand: Evaluate) -> Evaluate:
    def evaluate(properties: bytes) -> Value | None:
        value = operand(properties)
        if isinstance(value, bool | str) or value is None:
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return evaluate


def _not(operand: Evaluate) -> Evaluate:
    def evaluate(properties: bytes) -> bool | None:
        value = operand(properties)
        return None if value is None else not value

    return evaluate


def _truth(operand: Evaluate) -> Evaluate:
    return lambda properties: None if operand(properties) is None else False


def _all(parts: list[Evaluate]) -> Evaluate:
    def evaluate(properties: bytes) -> bool | None:
        answer: bool | None = True
        for part in parts:
            value = part(properties)
            if value is False:
                return False
            if value is None:
                answer = None
        return answer

    return evaluate


def _any(parts: list[Evaluate]) -> Evaluate:
    def evaluate(properties: bytes) -> bool | None:
        answer: bool | None = False
        for part in parts:
            value = part(properties)
            if value is True:
                return True
            if value is None:
                answer = None
        return answer

    return evaluate


def _equal(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(properties: bytes) -> bool | None:
        a, b = left(properties), right(properties)
        if a is None:
            return True if b is None else None
        if b is None:  # unknown only on the left, as in RocketMQ
            return False
        return order(a, b) == 0

    return evaluate


_SIGNS: Final[dict[str, Callable[[int, int], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def _ordered(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    holds = _SIGNS[sign]

    def evaluate(properties: bytes) -> bool | None:
        a = left(properties)
        if a is None:
            return None
        b = right(properties)
        if b is None:
            return None
        return holds(order_of_numbers(a, b), 0)

    return evaluate


def _in(operand: Evaluate, texts: frozenset[str], negated: bool) -> Evaluate:
    def evaluate(properties: bytes) -> bool | None:
        value = operand(properties)
        return None if value is None else (value in texts) is not negated

    return evaluate


_PARTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _part(word: str, operand: Evaluate, text: str, negated: bool) -> Evaluate:
    """Never unknown: False for a missing value, and for an empty text, negated or not."""
    holds = _PARTS[word]

    def evaluate(properties: bytes) -> bool:
        value = operand(properties)
        return bool(text) and isinstance(value, str) and holds(value, text) is not negated

    return evaluate
