"""How long a receive is held: asked, settings, deadline, limit."""

import pytest

from popmq_proxy.core.messages.validate import poll_ms


@pytest.mark.parametrize(
    ("asked", "settings", "remaining", "expected"),
    [
        (5_000, None, None, 5_000),
        (None, 7_000, None, 7_000),
        (None, None, None, 20_000),
        (60_000, None, None, 20_000),
        (0, 7_000, 30_000, 0),
        (20_000, None, 23_000, 20_000),
        (20_000, None, 20_000, 19_000),  # Rust: the deadline is the poll itself
        (20_000, None, 3_000, 2_400),
        (None, None, 6_000, 5_000),
        (None, 20_000, 1_000, 800),
        (10, None, 150, 10),
    ],
)
def test_poll_time(
    asked: int | None, settings: int | None, remaining: int | None, expected: int
) -> None:
    assert poll_ms(asked, settings, remaining, 20_000) == expected
