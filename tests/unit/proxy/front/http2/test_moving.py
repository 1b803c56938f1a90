"""Which connection a busy server parts with: one without which both servers have the same to do."""

import pytest

from popmq_proxy.front.http2.moving import connection_to_move


@pytest.mark.parametrize(
    ("recent_s", "share", "moved"),
    [
        ({"a": 0.5, "b": 0.3, "c": 0.1}, 0.4, "b"),  # the largest that is not too large
        ({"a": 0.5, "b": 0.5}, 0.4, "a"),  # too large, and yet better than none
        ({"a": 0.9, "b": 0.01}, 0.4, "b"),  # who does little is served better elsewhere
        ({"a": 0.9, "b": 0.0}, 0.4, None),  # who does nothing stays
        ({"a": 0.9}, 0.4, None),  # alone it would be as slow there
        ({"a": 0.5, "b": 0.5}, 0.2, None),  # then the other one would have too much to do
        ({}, 0.4, None),
    ],
)
def test_the_one_that_is_moved(recent_s: dict[str, float], share: float, moved: str | None) -> None:
    assert connection_to_move(recent_s, share) == moved
