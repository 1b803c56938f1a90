"""Is a cursor of delayed messages what it was, and is anything else refused?"""

import base64
import json

import pytest

from popmq_common.errors import BadRequest
from popmq_proxy.core.messages.delayed_cursor import CHARS_MAX, decode, encode


def test_places_come_back() -> None:
    places = {"broker-a": (5, 17), "böse \"']": (-1, -1), "c": None}
    assert decode(encode(places)) == places


@pytest.mark.parametrize(
    "places",
    [
        [],
        "x",
        {"a": 1},
        {"a": [1]},
        {"a": [1, 2, 3]},
        {"a": [1, "2"]},
        {"a": [1, True]},
        {"a": [1, 1.5]},
        {"a": [-2, 0]},
        {"a": [1 << 62, 0]},
    ],
)
def test_what_is_no_place_is_refused(places: object) -> None:
    text = base64.urlsafe_b64encode(json.dumps(places).encode()).decode()
    with pytest.raises(BadRequest, match="begin without one"):
        decode(text)


@pytest.mark.parametrize("text", ["%", "AAAA", "ü", "A" * (CHARS_MAX + 1), "W" * 8_000])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        decode(text)
