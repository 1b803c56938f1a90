"""What a handler is called with: read from its parameters when it is registered.

(message)           the message
(body: bytes)       its body; (body: bytes, message) both
(value)             with a serializer, the body as a value; (value, message) both

Parameters that somebody else fills in (`popmq/app/injection.py`) and those with a default are left
out.
"""

import inspect
from collections.abc import Callable, Collection
from inspect import Parameter
from typing import Any, NamedTuple, get_origin

from popmq.message import ReceivedMessage

_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)


class Wants(NamedTuple):
    value: bool
    message: bool


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Annotations are text where they cannot be read. Raises `TypeError`."""
    if not callable(function):
        raise TypeError(f"{function!r} is no function that could handle messages")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"handler {name(function)}() has a yield: it would never run")
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, AttributeError, SyntaxError):  # names that only type checkers import
        signature = inspect.signature(function)
    except ValueError:  # of C, without a signature
        return [Parameter("message", Parameter.POSITIONAL_ONLY)]
    return list(signature.parameters.values())


def wanted(
    function: Callable[..., Any], *, has_serializer: bool, filled_in: Collection[str] = ()
) -> Wants:
    """`filled_in`: names of parameters that are not looked at. Raises `TypeError`."""
    found = [one for one in parameters(function) if one.name not in filled_in]
    by_place = [one for one in found if one.kind in _BY_PLACE]
    written = f"handler {name(function)}({', '.join(str(one.name) for one in found)})"
    if not by_place or by_place[0].name != found[0].name:
        what = "value" if has_serializer else "message"
        raise TypeError(f"{written} takes no {what}: it needs a parameter for it")
    first, rest = by_place[0], by_place[1:]
    wants_value = has_serializer or first.annotation in (bytes, "bytes")
    if has_serializer and _is_message(first):
        if any(map(_is_required, rest)):
            raise TypeError(f"{written}: the value is first, then the message")
        raise TypeError(f"{written} takes no value: leave serializer= out, or take the value first")
    if not wants_value and not _may_be_message(first):
        kind = getattr(first.annotation, "__name__", first.annotation)
        raise TypeError(f"{written} takes a {kind}: say by serializer= how a body becomes one")
    wants_message = not wants_value or _gets_message(rest)
    given = by_place[: 1 + (wants_value and wants_message)]
    lacking = [one.name for one in found if one not in given and _is_required(one)]
    if lacking:
        what = "with a value and a message" if wants_value else "with a message"
        how = what if has_serializer else f"{what}, without serializer= "
        raise TypeError(f"{written} is called {how.strip()}: nobody gives it {lacking[0]!r}")
    return Wants(wants_value, wants_message)


def name(function: Callable[..., Any]) -> str:
    found = getattr(function, "__qualname__", "") or type(function).__qualname__
    return found.rpartition("<locals>.")[2]


def is_async(function: Callable[..., Any]) -> bool:
    """Also an object that is called like a coroutine function."""
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _gets_message(rest: list[Parameter]) -> bool:
    if not rest:
        return False
    may = _is_required(rest[0]) and _may_be_message(rest[0])
    return may or _is_message(rest[0]) or rest[0].kind is Parameter.VAR_POSITIONAL


def _is_required(parameter: Parameter) -> bool:
    variable = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.default is Parameter.empty and not variable


def _is_message(parameter: Parameter) -> bool:
    """Its annotation says so."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2].strip("\"'") == ReceivedMessage.__name__
    return annotation is ReceivedMessage


def _may_be_message(parameter: Parameter) -> bool:
    """Its annotation does not say that it is something else."""
    kind = get_origin(parameter.annotation) or parameter.annotation
    if not isinstance(kind, type) or kind in (Parameter.empty, Any):
        return True
    try:
        return issubclass(ReceivedMessage, kind)
    except TypeError:  # a protocol that is not for that
        return True
