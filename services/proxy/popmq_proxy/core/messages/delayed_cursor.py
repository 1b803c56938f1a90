"""Where a list of delayed messages goes on: a place at each broker, as text.

    URL-safe base64 of   {"broker-a": [DUE_MS, OFFSET], "broker-b": null}

None, null: that broker has nothing more.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final

from popmq_common.errors import BadRequest

CHARS_MAX: Final = 16_384
NUMBER_MAX: Final = 1 << 62
Place = tuple[int, int]
"""(due_ms, offset)"""


def encode(places: Mapping[str, Place | None]) -> str:
    text = json.dumps(places, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).decode()


def decode(text: str) -> dict[str, Place | None]:
    """Raises `BadRequest` for what is no cursor."""
    wrong = BadRequest(reason="the cursor is not one of this server's: begin without one")
    if len(text) > CHARS_MAX:
        raise wrong
    try:
        found = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise wrong from None
    if not isinstance(found, dict) or not all(map(_is_place, found.values())):
        raise wrong
    return {name: None if place is None else (place[0], place[1]) for name, place in found.items()}


def _is_place(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(one) is int and -1 <= one < NUMBER_MAX for one in value)
    )
