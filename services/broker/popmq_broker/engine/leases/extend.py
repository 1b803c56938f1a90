"""Extend: a consumer goes on holding messages of a run, under the handle that it has.

A change (ack.py) makes a new lease of each message, with a handle of its own: two records, and acks
that share nothing any more. Here one checkpoint of all that one grant holds says that they are held
longer. Pop time and generation stay, so who asks again, because the answer was lost, is right.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from popmq_broker.core.leases.grant import Grant
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import append_behind, before_end
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.ack import Ack, by_runs, outcomes_told
from popmq_broker.engine.leases.extend_lease import extend_leases, extension
from popmq_internal.v1 import link_pb2 as link


class Extend:
    def __init__(self, runtime: Runtime, lease_state: LeaseState, ack: Ack) -> None:
        self._runtime = runtime
        self._lease_state = lease_state
        self._ack = ack

    async def extend(self, request: link.Extend) -> link.ExtendReply:
        """For `invisible_ms` from now; a lease that lasts longer already stays as it is. One
        outcome per lease, in order. Raises `DiskFull`: then some of them may last longer."""
        runtime = self._runtime
        now_ms = runtime.clock.now_ms()
        runs = by_runs(request.runs)
        done = LeaseOutcome.DONE
        found = self._ack.find(request.group, request.topic, runs, now_ms, named_again=done)
        for outcome, count in Counter(found.outcomes).items():
            runtime.stats.changed[request.topic, request.group, outcome.value] += count
        until_ms = now_ms + request.invisible_ms
        for grant, (queue, offsets) in found.held.items():
            if until_ms > grant.due_ms:
                self._extend(queue, grant, tuple(offsets), until_ms, now_ms)
        await runtime.store.durable(runtime.store.log_end)
        return link.ExtendReply(outcomes=outcomes_told(found.outcomes))

    def _extend(
        self,
        queue: GroupQueueState,
        grant: Grant,
        offsets: Sequence[int],
        until_ms: int,
        now_ms: int,
    ) -> None:
        """Decide, append, apply."""
        runtime, lease_state = self._runtime, self._lease_state
        longer = replace(grant, invisible_ms=until_ms - grant.pop_time_ms)
        ahead = before_end(queue, [queue.leases[offset] for offset in offsets])
        draft = extension(runtime, queue, longer, offsets, now_ms)
        (place,) = append_behind(runtime, lease_state, ahead, [draft], now_ms)
        longer.revive_offset = place.queue_offset
        extend_leases(lease_state, queue, longer, offsets)
