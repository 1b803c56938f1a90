"""Guard: the business object's own states, changed by compare and set.

    trips = StateMachine(
        trip, key=trip.c.id, state=trip.c.state,
        allowed={"created": ["assigned", "cancelled"], "assigned": ["departed", "cancelled"],
                 "departed": ["arrived"]},
    )
    async with engine.begin() as connection:
        if await trips.move(connection, "trip-7", "departed"):
            ...                            # what follows from it, in the same transaction

    current state, seen from the message's        move
    may go to it in one step                      True: changed now
    is it                                         False: a duplicate
    lies behind it, or on another branch          False: too late, as for an older message
    leads to it in several steps                  Retry: an earlier message has not come yet

Promise: each step is made once, in the allowed order, whatever is doubled or overtakes. Limits:
only what the state tells apart; a step that may be made twice (a cycle) is refused at the start,
use `OptimisticVersion` then. What follows must be in the same transaction.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Column, Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.errors import RowMissing, UnknownState
from popmq.idempotence.inbox import RETRY_DELAY_S
from popmq.idempotence.sql_dialect import contention_is_retry
from popmq.outcome import Retry


class StateMachine:
    def __init__(
        self,
        table: Table,
        *,
        key: Column[Any],
        state: Column[Any],
        allowed: Mapping[str, Iterable[str]],
    ) -> None:
        """`allowed`: state → the states that may follow. Raises ValueError when it has a cycle."""
        self.counts = IdempotenceCounts()
        self._table, self._key, self._state = table, key, state
        self._after = reachable({source: set(targets) for source, targets in allowed.items()})
        self._before: dict[str, list[str]] = {name: [] for name in self._after}
        for source, targets in allowed.items():
            for target in targets:
                self._before[target].append(source)

    async def move(
        self,
        connection: AsyncConnection,
        row: object,
        to: str,
        values: Mapping[str, Any] | None = None,
    ) -> bool:
        """True: the row is in state `to` now, and has the other `values`. False: it was moved
        there or further before. Raises `Retry`, `RowMissing`, `UnknownState`."""
        if to not in self._after:
            raise UnknownState(self._table.name, to)
        change = (
            update(self._table)
            .where(self._key == row, self._state.in_(self._before[to]))
            .values({self._state.name: to, **(values or {})})
        )
        async with contention_is_retry(self.counts, f"{self._table.name} {row!r}"):
            if (await connection.execute(change)).rowcount == 1:
                self.counts.handled += 1
                return True
            found = await connection.execute(select(self._state).where(self._key == row))
        current = found.scalar_one_or_none()
        if current is None:
            raise RowMissing(self._table.name, row)
        if current not in self._after:
            raise UnknownState(self._table.name, current)
        if to in self._after[current]:  # also when it was moved between the two statements
            self.counts.in_progress += 1
            reason = f"{self._table.name} {row!r} is {current}: what leads to {to} has not come"
            raise Retry(RETRY_DELAY_S, reason, counted=False)
        self.counts.suppressed += 1
        return False


def reachable(allowed: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """State → all that may come after it, in any number of steps. Raises ValueError."""
    after: dict[str, set[str]] = {}
    under_way: list[str] = []

    def visit(state: str) -> set[str]:
        if state in under_way:
            raise ValueError(f"a cycle: {' → '.join([*under_way, state])}; use OptimisticVersion")
        if state not in after:
            under_way.append(state)
            found = set(allowed.get(state, ()))
            after[state] = found.union(*(visit(target) for target in found))
            under_way.pop()
        return after[state]

    for state in allowed:
        visit(state)
    return after
