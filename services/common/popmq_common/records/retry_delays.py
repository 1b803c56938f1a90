"""RocketMQ's table of delays between the attempts of a message, in ms: what a group has that sets
no retry policy of its own."""

from typing import Final

TABLE_MS: Final = tuple(
    1_000 * seconds
    for seconds in (
        *(1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600),
        *(1200, 1800, 3600, 7200),
    )
)
