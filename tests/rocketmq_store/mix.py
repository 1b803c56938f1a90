"""The messages of an exchange: many small ones, few large ones, with everything a message can have.

A body is a piece of one pool of random bytes, so both writers make it from two numbers.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketmq_store.sizes import BODY_BYTES_MAX

LONG_NAME: Final = "long-" + "n" * 122  # with a group's name before it: RocketMQ's second magic
TOPICS: Final = {
    "orders": (8, "NORMAL"),
    "events": (16, "NORMAL"),
    "steps": (4, "FIFO"),
    LONG_NAME: (1, "NORMAL"),
}
_WEIGHTS: Final = (60, 20, 8, 3)
_SMALL_MAX: Final = 12
"""Bodies of up to 2^12 bytes are the rule …"""
_LARGE_SHARE: Final = 0.004
_LARGEST_EVERY: Final = 5_000
_TAGS: Final = (None, None, "a", "red", "Grün", "AaAa", "BBBB")  # the last two share a hash
_VALUES: Final = ("1", "größer", "日本語", "🐇 rabbit", "a b  c", "{'x': 1}", "v" * 900)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    number: int
    topic: str
    at: int
    size: int
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    group: str | None
    """The message group, of a FIFO topic."""
    zip: bool

    def body(self, pool: bytes) -> bytes:
        return pool[self.at : self.at + self.size]

    def line(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        if self.group is None:
            del fields["group"]
        return fields


def make_pool(path: Path, seed: int) -> bytes:
    pool = random.Random(seed).randbytes(2 * BODY_BYTES_MAX)
    path.write_bytes(pool)
    return pool


def items(count: int, seed: int, *, first: int = 0) -> Iterator[Item]:
    """No body is empty: neither server takes one."""
    rng = random.Random(seed)
    for number in range(first, first + count):
        topic = rng.choices(list(TOPICS), _WEIGHTS)[0]
        size = _size(rng, number)
        yield Item(
            number=number,
            topic=topic,
            at=rng.randrange(BODY_BYTES_MAX),
            size=size,
            tag=rng.choice(_TAGS),
            keys=tuple(f"k{number}-{i}" for i in range(rng.choice((0, 1, 1, 3)))),
            properties=_properties(rng, number),
            group=f"line-{rng.randrange(40)}" if TOPICS[topic][1] == "FIFO" else None,
            zip=64 < size < BODY_BYTES_MAX // 2 and rng.random() < 0.1,
        )


def _size(rng: random.Random, number: int) -> int:
    if number % _LARGEST_EVERY == 99:
        return BODY_BYTES_MAX
    if rng.random() < _LARGE_SHARE:
        return int(2 ** rng.uniform(_SMALL_MAX, 20))
    return int(2 ** rng.uniform(0, _SMALL_MAX))


def _properties(rng: random.Random, number: int) -> dict[str, str]:
    chosen = {"number": str(number)}
    for i in range(rng.choice((0, 0, 1, 2, 5))):
        chosen[f"p{i}" if i % 2 else f"名前{i}"] = rng.choice(_VALUES)
    return chosen
