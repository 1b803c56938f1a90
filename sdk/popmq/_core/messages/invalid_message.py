"""Why a message could not be written: looked for when it was not, so a good one pays nothing."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from popmq.message import Message


def listed(keys: Sequence[str] | str) -> Sequence[str]:
    """One key may be given without a list; an empty text is none."""
    if isinstance(keys, str):
        return (keys,) if keys else ()
    return keys


def why_invalid(message: Message) -> str:
    """Empty: nothing of it is wrong."""
    body: Any = message.body
    delay_s: Any = message.delay_s
    deliver_at: Any = message.deliver_at
    if not _is_bytes(body):
        how = "encode it, or take a producer with a serializer"
        return f"a body is bytes, not {_kind(body)}: {how}"
    for name, text in (("a tag", message.tag), ("a message group", message.message_group)):
        if text is not None and not isinstance(text, str):
            return f"{name} is text, not {_kind(text)}"
    if delay_s is not None and not isinstance(delay_s, int | float):
        return f"delay_s is a number of seconds, not {_kind(delay_s)}"
    if deliver_at is not None and not isinstance(deliver_at, datetime):
        return f"deliver_at is a datetime, not {_kind(deliver_at)}"
    return _of_keys(message.keys) or _of_properties(message.properties)


def _of_keys(keys: Any) -> str:
    if not isinstance(keys, Sequence):
        return f"keys are one text or several, not {_kind(keys)}"
    for key in keys:
        if not isinstance(key, str):
            return f"key {key!r} is of type {_kind(key)}: keys are text, str({key!r})"
    return ""


def _of_properties(properties: Any) -> str:
    if properties is None:
        return ""
    if not isinstance(properties, Mapping):
        return f"properties are a dictionary of text, not {_kind(properties)}"
    for name, value in properties.items():
        if not isinstance(name, str):
            return f"property {name!r} is of type {_kind(name)}: names of properties are text"
        if not isinstance(value, str):
            return (
                f"property {name!r} is of type {_kind(value)}: properties are text, str({value!r})"
            )
    return ""


def _is_bytes(body: Any) -> bool:
    try:
        memoryview(body)
    except TypeError:
        return False
    return True


def _kind(value: Any) -> str:
    return type(value).__name__
