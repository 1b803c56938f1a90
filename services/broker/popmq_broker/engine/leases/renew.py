"""Renew: what signs of life and goodbyes of clients do to the leases that they hold.

The proxies tell which clients live. For each grant that is renewed one checkpoint goes to the
revive topic, with the same pop time and generation and a longer invisible time; it takes the place
of the one before, so the journal of a long lease does not reach back to its pop. All of a call are
one append.

A goodbye is not journaled: a crash in the moment before the return leaves a lease that ends when
its time is over.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from popmq_broker.core.leases.renewal import renewed, returned
from popmq_broker.engine.catalog.consumers import Consumers
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.extend_lease import extend_leases, extension
from popmq_broker.engine.leases.revive import Revive
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link

CLIENTS_MAX = 1_024  # of one call
CLIENTS_PER_TURN = 64  # looked at before other work gets its turn
GRANTS_MAX = 1_024  # renewed at a time


class Renew:
    def __init__(
        self, runtime: Runtime, lease_state: LeaseState, revive: Revive, consumers: Consumers
    ) -> None:
        self._runtime = runtime
        self._lease_state = lease_state
        self._consumers = consumers
        self._revive = revive

    async def alive(self, request: link.Alive) -> link.Done:
        """These clients live. Raises `DiskFull`: then what is left of them was not renewed."""
        _check(request.client_ids)
        end_offset = 0
        clients = list(dict.fromkeys(request.client_ids))
        for first in range(0, len(clients), CLIENTS_PER_TURN):
            some = clients[first : first + CLIENTS_PER_TURN]
            while (renewed_to := self._renew_some(some)) is not None:
                end_offset = renewed_to
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        await self._runtime.store.durable(end_offset)
        return link.Done()

    async def gone(self, request: link.Gone) -> link.Done:
        """These clients said goodbye; acks that are under way still find their leases."""
        _check(request.client_ids)
        runtime, lease_state = self._runtime, self._lease_state
        now_ms = runtime.clock.now_ms()
        for client_id in request.client_ids:
            self._consumers.gone(client_id)
            for held in lease_state.table.renewals.of(client_id):
                queue = lease_state.table.queues[held.key]
                grant = returned(held.grant, now_ms, runtime.config.goodbye_grace_ms)
                leases = {i: queue.leases[i]._replace(grant=grant) for i in held.offsets}
                lease_state.table.add(queue, leases)
                if queue.fifo_queue is not None:
                    queue.fifo_queue.regrant(leases)
        self._revive.look_again()
        return link.Done()

    def _renew_some(self, client_ids: Sequence[str]) -> int | None:
        """Decide, append, apply; the log's end behind it, None: nothing is due."""
        runtime, lease_state = self._runtime, self._lease_state
        now_ms = runtime.clock.now_ms()
        lease_ms_max = runtime.config.renewed_lease_ms_max
        due = lease_state.table.renewals.due(client_ids, now_ms, lease_ms_max, GRANTS_MAX)
        if not due:
            return None
        queues = [lease_state.table.queues[held.key] for held in due]
        grants = [renewed(held.grant, now_ms, lease_ms_max) for held in due]
        drafts = [
            extension(runtime, queue, grant, held.offsets, now_ms)
            for queue, grant, held in zip(queues, grants, due, strict=True)
        ]
        appended = runtime.store.append(drafts, now_ms, system=True)
        for queue, grant, held, place in zip(queues, grants, due, appended, strict=True):
            grant = replace(grant, revive_offset=place.queue_offset)
            extend_leases(lease_state, queue, grant, held.offsets)
            runtime.stats.renewed[queue.key.topic, queue.key.group] += len(held.offsets)
        self._revive.look_again()
        return appended[-1].end_offset


def _check(client_ids: Sequence[str]) -> None:
    count = len(client_ids)
    if count > CLIENTS_MAX:
        raise BadRequest(reason=f"{count} clients in one call, {CLIENTS_MAX} at most")
