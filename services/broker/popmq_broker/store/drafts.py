"""What goes into the store, and what it says about it."""

from dataclasses import dataclass
from typing import NamedTuple

from popmq_broker.store.queues import QueueId


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record before it has a place and a time."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int
    sys_flag: int
    flag: int
    born_timestamp_ms: int
    born_host: bytes
    reconsume_times: int = 0


class Appended(NamedTuple):
    log_offset: int
    end_offset: int
    queue_offset: int
    store_timestamp_ms: int


class Arrival(NamedTuple):
    """A message that has become visible."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int


class Pending(NamedTuple):
    """Records of one append that are not yet in their queues: parallel lists."""

    end_offset: int
    items: list[tuple[QueueId, int, bytes]]
    arrivals: list[Arrival]
