"""How the values of an SQL filter compare: text, whole numbers of 32 and 64 bits, doubles, truth.

A property is always text. Beside a number it is read as a number of that very kind, so `"30.5"` and
`"3000000000"` are not comparable with `20`, which has 32 bits; they are with `20.0`. Two texts are
ordered as doubles. What cannot be read makes the whole expression not match.

Source: RocketMQ ComparisonExpression; Java's Integer.valueOf, Long.valueOf and Double.valueOf.
Hexadecimal doubles, which Java also reads, are no numbers here.
"""

import math
import re
from typing import Final

_BITS_32: Final = 1 << 31
_BITS_64: Final = 1 << 63
_WHOLE: Final = re.compile(r"[+-]?\d{1,64}")
_DOUBLE: Final = re.compile(
    r"([+-]?(?:NaN|Infinity))|([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
)
_BLANKS: Final = "".join(map(chr, range(33)))


class Long(int):
    """A whole number of 64 bits; a plain `int` has 32."""


Value = str | bool | int | float
"""Of a constant, a property or a comparison; None beside it is unknown."""


class NotComparable(Exception):
    """These two values have no order: the message does not match."""


def order(left: Value, right: Value) -> int:
    """Below, at or above zero. Raises `NotComparable`."""
    left_kind, right_kind = type(left), type(right)
    if left_kind is not right_kind:
        if left_kind is str:
            left = read_as(right_kind, str(left))
        elif right_kind is str:
            if left_kind is bool:
                raise NotComparable
            right = read_as(left_kind, str(right))
        elif left_kind is bool or right_kind is bool:
            return -1
        elif left_kind is float or right_kind is float:
            left, right = float(left), float(right)
    if isinstance(left, float) and isinstance(right, float):
        return _order_of_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]


def order_of_numbers(left: Value, right: Value) -> int:
    """As `order`, but two texts are doubles. Raises `NotComparable`."""
    if isinstance(left, str) and isinstance(right, str):
        return _order_of_doubles(double(left), double(right))
    return order(left, right)


def read_as(kind: type, text: str) -> Value:
    """Raises `NotComparable`."""
    if kind is bool:
        return text.lower() == "true"
    if kind is float:
        return double(text)
    return whole(text, _BITS_64 if kind is Long else _BITS_32)


def whole(text: str, limit: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise NotComparable
    number = int(text)
    if not -limit <= number < limit:
        raise NotComparable
    return number


def double(text: str) -> float:
    found = _DOUBLE.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise NotComparable
    return float(found[1] or found[2])


def _order_of_doubles(left: float, right: float) -> int:
    """Total: NaN is above all and equal to itself, -0.0 is below 0.0."""
    if left != left or right != right:
        return (left != left) - (right != right)
    if left == right == 0.0:
        left, right = math.copysign(1, left), math.copysign(1, right)
    return (left > right) - (left < right)


def constant(text: str) -> int | float:
    """A number as it is written in an expression. Raises `NotComparable` when out of range."""
    if "." in text or "e" in text.lower():
        number = float(text)
        underflow = number == 0.0 and any(digit in "123456789" for digit in _mantissa(text))
        if math.isinf(number) or underflow:
            raise NotComparable
        return number
    number = whole(text.rstrip("lL"), _BITS_64)
    return number if number < _BITS_32 else Long(number)


def _mantissa(text: str) -> str:
    return re.split("[eE]", text)[0]
