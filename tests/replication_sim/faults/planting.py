"""How a fault is planted: a context in which code is another."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Fault = Callable[[], AbstractContextManager[Any]]
FAULTS: dict[str, Fault] = {}


def fault(plant: Callable[[], Iterator[None]]) -> Fault:
    made = contextmanager(plant)
    FAULTS[plant.__name__] = made
    return made
