"""Which settings a process has, and what set each: what operators may see of a configuration.

A secret is never in it. `is_hidden` says which fields are told as `set` alone:

- those that the configuration does not print (`repr=False`),
- those with secret, password or token in their name, and files that hold one: names that end with
  _file, _key or _password,
- and of a URL, what stands before its @ and behind its ?.
"""

import dataclasses
import re
from enum import Enum
from typing import Any, Final, NamedTuple

from popmq_common.process.config import variables

DEFAULT: Final = "default"
PROGRAM: Final = "program"
"""Neither variable nor option: code that runs the service in its own process."""
FILE: Final = "file"
SET: Final = "set"
SECRET_WORDS: Final = frozenset({"secret", "password", "token", "credentials"})
FILE_WORDS: Final = frozenset({"file", "key"})
"""Last words of the names of files in which a secret may be."""
_USERINFO: Final = re.compile(r"(?<=://)[^?]*@")
_QUERY: Final = re.compile(r"\?.*", re.DOTALL)


class SettingInForce(NamedTuple):
    name: str
    """The variable."""
    value: str
    """As the variable would have it."""
    source: str
    """default, environment, file, program, or what the caller of `from_env` named."""


def settings_in_force(config: Any, prefix: str) -> list[SettingInForce]:
    """Of a configuration whose variables begin with `prefix`, in the order of its fields."""
    sources = getattr(config, "sources", {})
    return [
        SettingInForce(prefix + field.name.upper(), *_told(config, field, sources))
        for field in variables(type(config))
    ]


def is_hidden(field: "dataclasses.Field[Any]") -> bool:
    """Whether its value is told as `set` alone."""
    words = field.name.split("_")
    return not field.repr or bool(SECRET_WORDS & set(words)) or words[-1] in FILE_WORDS


def _told(config: Any, field: "dataclasses.Field[Any]", sources: dict[str, str]) -> tuple[str, str]:
    """(value, source)"""
    value = getattr(config, field.name)
    if not value and getattr(config, f"{field.name}_file", None) is not None:
        return SET, FILE
    source = sources.get(field.name) or (DEFAULT if value == field.default else PROGRAM)
    text = value_text(value)
    if is_hidden(field):
        return (SET if text else ""), source
    return without_credentials(text), source


def value_text(value: Any) -> str:
    """As a variable says it; None: empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(map(value_text, value))
    return str(value)


def without_credentials(text: str) -> str:
    """A URL may have some before its @ or behind its ?."""
    if "://" not in text:
        return text
    return _QUERY.sub("?***", _USERINFO.sub("***@", text))
