"""Faults that the crash campaign must find: the broker, changed in one place, in every life."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from popmq_broker.core.leases.pop_buffer import Unstored
from popmq_broker.core.timers import timer
from popmq_broker.core.timers.timer_snapshot import TimerSnapshot
from popmq_broker.core.timers.timer_wheel import Wheel
from popmq_broker.engine.startup import journal_replay
from popmq_broker.engine.timers import timer_load
from popmq_broker.engine.transactions import transaction_replay
from popmq_broker.engine.transactions.transaction import Transactions

Fault = Callable[[], AbstractContextManager[Any]]
FAULTS: dict[str, Fault] = {}


def fault(plant: Callable[[], Iterator[None]]) -> Fault:
    made = contextmanager(plant)
    FAULTS[plant.__name__] = made
    return made


def _nothing(*_: Any, **__: Any) -> None:
    return


@fault
def a_start_forgets_recalls() -> Iterator[None]:
    """And what was delivered."""
    with patch.object(timer, "ended_by", _nothing):
        yield


@fault
def a_start_forgets_what_waits() -> Iterator[None]:
    with (
        patch.object(timer_load, "_parked", lambda *_: iter(())),
        patch.object(TimerSnapshot, "entries", lambda _: ()),
    ):
        yield


@fault
def delayed_messages_come_early() -> Iterator[None]:
    real = Wheel.take_due

    def take_due(self: Wheel, now_ms: int, count: int) -> Any:
        return real(self, now_ms + 300, count)

    with patch.object(Wheel, "take_due", take_due):
        yield


@fault
def a_start_forgets_what_was_settled() -> Iterator[None]:
    with patch.object(transaction_replay, "_apply", _nothing):
        yield


@fault
def a_start_forgets_half_messages() -> Iterator[None]:
    with patch.object(transaction_replay, "_add", _nothing):
        yield


@fault
def a_rollback_commits() -> Iterator[None]:
    real = Transactions.end

    async def end(self: Transactions, request: Any) -> Any:
        request.commit = True
        return await real(self, request)

    with patch.object(Transactions, "end", end):
        yield


@fault
def a_start_forgets_acks() -> Iterator[None]:
    with patch.object(journal_replay, "_apply_ack", _nothing):
        yield


@fault
def the_saved_position_passes_what_is_buffered() -> Iterator[None]:
    with patch.object(Unstored, "needed_from", lambda _, position: position):
        yield
