"""Configuration: a frozen dataclass per process, read once from the environment.

Each field is one variable, prefix plus the field's name in capitals; its docstring (the string
below it) and default make the page docs/configuration.md. All mistakes are told at once.
"""

import ast
import dataclasses
import inspect
import textwrap
import types
from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
ENVIRONMENT: Final = "environment"
_NO_VARIABLE: Final = "no variable"
PORT_MAX: Final = 65_535


class ConfigError(Exception):
    """One line per variable that is missing or malformed."""


def sources_field() -> Any:
    """The field `sources` of a configuration, which is no variable: what set each other field, by
    the field's name. What is not in it has its default, or was set by a program."""
    return dataclasses.field(
        default_factory=dict, repr=False, compare=False, metadata={_NO_VARIABLE: True}
    )


def variables(cls: type) -> "list[dataclasses.Field[Any]]":
    """The fields of a configuration that are variables."""
    return [field for field in dataclasses.fields(cls) if _NO_VARIABLE not in field.metadata]


def from_env(
    cls: type[T], prefix: str, environ: Mapping[str, str], sources: Mapping[str, str] | None = None
) -> T:
    """Build `cls` from the variables that start with `prefix`. `sources`: of variables that are not
    the environment's, what set them. Raises `ConfigError`."""
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    set_by: dict[str, str] = {}
    hints = get_type_hints(cls)
    for field in variables(cls):
        name = prefix + field.name.upper()
        text = environ.get(name)
        if text is None:
            if _required(field):
                mistakes.append(f"{name} is missing: {describe(cls)[field.name]}")
            continue
        try:
            values[field.name] = _parse(hints[field.name], text)
            set_by[field.name] = (sources or {}).get(name, ENVIRONMENT)
            if field.name.split("_")[-1] == "port":
                check_port(values[field.name])
        except ValueError as wrong:
            mistakes.append(f"{name}={text!r}: {wrong}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    if any(field.name == "sources" for field in dataclasses.fields(cls)):  # type: ignore[arg-type]
        values["sources"] = set_by
    return cls(**values)


def check_port(number: int) -> None:
    """Raises `ValueError`."""
    if not 0 <= number <= PORT_MAX:
        raise ValueError(f"a port is a number from 0 to {PORT_MAX}")


def unknown_variables(cls: type, prefix: str, environ: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that mean nothing; worth a warning, not an error."""
    known = {prefix + field.name.upper() for field in variables(cls)}
    return sorted(name for name in environ if name.startswith(prefix) and name not in known)


def describe(cls: type) -> dict[str, str]:
    """Field name → the docstring written below it in the class body."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    texts: dict[str, str] = {}
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            texts[field.target.id] = " ".join(text.value.value.split())
    return texts


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _parse(kind: Any, text: str) -> Any:
    if get_origin(kind) is types.UnionType:
        (kind,) = [choice for choice in get_args(kind) if choice is not types.NoneType]
    if get_origin(kind) is tuple:
        return tuple(_parse(get_args(kind)[0], part) for part in text.split(",") if part)
    if kind is bool:
        return _parse_bool(text)
    if kind is int:
        return int(text)
    if kind is float:
        return float(text)
    if kind is Path:
        return Path(text)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _parse_enum(kind, text)
    return text


def _parse_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off"}:
        return False
    raise ValueError("say true or false")


def _parse_enum(kind: type[Enum], text: str) -> Enum:
    for choice in kind:
        if str(choice.value).lower() == text.lower():
            return choice
    kind._missing_(text)  # it may know more about this text, and raise that
    raise ValueError("one of " + ", ".join(str(choice.value) for choice in kind))
