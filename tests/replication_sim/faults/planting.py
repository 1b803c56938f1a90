"""How a fault is planted: a context in which code is another."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

Plant = Callable[[], Iterator[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    planted: Callable[[], AbstractContextManager[Any]]
    dangers: tuple[str, ...]
    """Of `replication_sim.chaos` that alone show it soon; none: any."""


FAULTS: dict[str, Fault] = {}


def fault(plant: Plant) -> Plant:
    FAULTS[plant.__name__] = Fault(contextmanager(plant), ())
    return plant


def fault_with(*dangers: str) -> Callable[[Plant], Plant]:
    def remember(plant: Plant) -> Plant:
        FAULTS[plant.__name__] = Fault(contextmanager(plant), dangers)
        return plant

    return remember
