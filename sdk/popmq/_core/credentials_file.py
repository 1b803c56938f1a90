"""A file with an access key and its secret: JSON, or lines of an environment.

{"accessKey": "alice", "secretKey": "…", "sessionToken": "…"}

POPMQ_ACCESS_KEY=alice
POPMQ_SECRET_KEY=…
"""

import json
from typing import Final

NAMES: Final = {
    "POPMQ_ACCESS_KEY": "accessKey",
    "POPMQ_SECRET_KEY": "secretKey",
    "POPMQ_SESSION_TOKEN": "sessionToken",
}


def parsed(text: str) -> dict[str, str]:
    """accessKey, secretKey, sessionToken: those that are there. Raises `ValueError`, which does
    not quote the text."""
    found = _of_json(text) if text.lstrip().startswith("{") else _of_lines(text)
    unknown = sorted(found.keys() - set(NAMES.values()))
    if unknown:
        raise ValueError(f"it has {unknown[0]}, which is none of {', '.join(NAMES.values())}")
    return found


def _of_json(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError as wrong:
        raise ValueError("it is not JSON") from wrong
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError("a value in it is not a string")
    return dict(found)


def _of_lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().removeprefix("export ")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"line {number} is not NAME=VALUE")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[NAMES.get(name.strip(), name.strip())] = value
    return found
