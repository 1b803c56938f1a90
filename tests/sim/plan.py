"""What one life of the simulated world is like; each draws its own dangers (swarm testing)."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

TOPICS = {"orders": 3, "bills": 1}
"""Topic → queues."""
TAGS = ("red", "green", "")
LINES = ("", "a", "b", "c")


@dataclass(slots=True)
class GroupPlan:
    name: str
    fifo: bool = False
    max_attempts: int = 16
    tags: tuple[str, ...] | None = None
    sql: str = ""
    """The same wish as an expression."""
    begins_last: bool = False


@dataclass(slots=True)
class Plan:
    groups: list[GroupPlan]
    weights: dict[str, int]
    settings: dict[str, Any]
    invisible_ms: list[int] = field(default_factory=lambda: [50, 1_000, 10_000, 60_000])
    backlog_max: int = 400
    """Messages that some group has not settled; beyond it nothing is sent."""


def draw(random: Random) -> Plan:
    groups = [
        GroupPlan("plain", max_attempts=random.choice([2, 3, 16])),
        GroupPlan("ordered", fifo=True, max_attempts=random.choice([2, 4, 16])),
        GroupPlan("red-only", tags=("red",), max_attempts=16),
        GroupPlan("red-ordered", fifo=True, tags=("red", "green"), max_attempts=3),
        GroupPlan("no-red", tags=("green", ""), sql="TAGS IS NULL OR TAGS <> 'red'"),
        GroupPlan("late", begins_last=True, max_attempts=3),
    ]
    chosen = random.sample(groups, random.randint(1, 3))
    weights = {
        "send": 200,
        "send_run": 40,
        "pop": 260,
        "poll": 60,
        "ack": 330,
        "ack_stale": random.choice([5, 20]),
        "change": random.choice([0, 30, 100]),
        "extend": random.choice([0, 30, 100]),
        "nack": random.choice([0, 30, 100]),
        "release": random.choice([0, 30]),
        "forward": random.choice([0, 10]),
        "vanish": random.choice([0, 20]),
        "cut": random.choice([0, 4]),
        "restart": random.choice([0, 2]),
        "kill": random.choice([0, 2]),
        "crash": random.choice([0, 3]),
        "remake_topic": random.choice([0, 1]),
        "remake_group": random.choice([0, 1]),
        "write_offsets": random.choice([0, 10]),
        "checkpoint": random.choice([0, 4]),
        "scrape": 5,
    }
    settings = {
        "segment_bytes": random.choice([8, 32, 256]) * 1024,
        "queue_file_bytes": random.choice([200, 2_000, 20_000]),
        "index_slots": 50,
        "index_entries": 400,
        "disk_reserve_bytes": 0,
        "revive_queues": random.choice([1, 2, 8]),
        "in_flight_max": random.choice([6, 10_000]),
        "wake_gap_ms": random.choice([0, 5]),
        "offsets_interval_ms": random.choice([200, 5_000]),
    }
    return Plan(chosen, weights, settings)
