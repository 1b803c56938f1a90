"""Nack: a consumer gives messages back, or up.

A nack that waits for its delay is a new lease one generation higher, of which nobody gets a handle:
journaled as a change is, with the kind and the reason in the checkpoint. Messages of one grant that
wait equally long share a checkpoint and an ack. When the lease is due the revival does what the
kind says. A fatal nack, a counted one after the last attempt, and an uncounted one after the last
delivery move the message to the dead letters at once.
"""

from collections.abc import Sequence
from itertools import chain

from popmq_broker.core.catalog.tables import GroupConfig
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.core.leases.nack import Nack, NackKind, clean_reason
from popmq_broker.core.retries.deliveries import why_dead
from popmq_broker.core.retries.retry import DeadLetterCause
from popmq_broker.core.retries.retry_policy import DELAY_MS_MAX
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.ack import Ack, by_runs, outcomes_told
from popmq_broker.engine.leases.revive import Revive
from popmq_common.errors import BadRequest
from popmq_common.records import receipt
from popmq_internal.v1 import link_pb2 as link

AS_THE_POLICY_SAYS = -1
REASON_FATAL = "rejected by the consumer"


class Nacks:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, ack: Ack, revive: Revive
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._ack = ack
        self._revive = revive

    async def nack(self, request: link.Nack) -> link.NackReply:
        """One outcome per lease, in order, handles before runs. Raises `BadRequest`,
        `GroupNotFound`, `DiskFull`: then some of it may be done."""
        runtime = self._runtime
        self._catalog_state.group(request.group)
        if request.kind not in (kind.value for kind in NackKind):
            raise BadRequest(
                reason="a nack is counted, uncounted or fatal; this one is none of them"
            )
        if not AS_THE_POLICY_SAYS <= request.delay_ms <= DELAY_MS_MAX:
            raise BadRequest(
                reason=f"nack delay {request.delay_ms} ms, 0 to {DELAY_MS_MAX} allowed"
            )
        nack = Nack(NackKind(request.kind), clean_reason(request.reason))
        now_ms = runtime.clock.now_ms()
        named = chain(receipt.runs(request.handles), by_runs(request.runs))
        superseded = LeaseOutcome.SUPERSEDED
        found = self._ack.find(request.group, request.topic, named, now_ms, named_again=superseded)
        for queue, offsets in found.held.values():
            self._apply(queue, sorted(offsets), nack, request.delay_ms, now_ms)
            kind = nack.kind.name.lower()
            runtime.stats.nacked[request.topic, request.group, kind] += len(offsets)
        if found.held:
            await runtime.store.durable(runtime.store.log_end)
        return link.NackReply(outcomes=outcomes_told(found.outcomes))

    def _apply(
        self,
        queue: GroupQueueState,
        offsets: Sequence[int],
        nack: Nack,
        delay_ms: int,
        now_ms: int,
    ) -> None:
        """Messages of one grant. Those that wait equally long are journaled together."""
        group = self._catalog_state.group(queue.key.group)
        waiting: dict[int, list[int]] = {}
        for offset in offsets:
            attempts, handed_out = self._revive.deliveries(queue, offset)
            dead = _why_dead(group, nack, attempts, handed_out)
            if dead is not None:
                self._revive.forward(queue, offset, *dead)
                continue
            by_policy = delay_ms == AS_THE_POLICY_SAYS
            wait_ms = group.retry_policy.delay_ms(attempts) if by_policy else delay_ms
            waiting.setdefault(wait_ms, []).append(offset)
        for wait_ms, alike in waiting.items():
            self._ack.renew_together(queue, alike, wait_ms, now_ms, nack)


def _why_dead(
    group: GroupConfig, nack: Nack, attempts: int, handed_out: int
) -> tuple[DeadLetterCause, str] | None:
    """None: it is redelivered."""
    match nack.kind:
        case NackKind.FATAL:
            return DeadLetterCause.REJECTED, nack.reason or REASON_FATAL
        case NackKind.COUNTED if attempts >= group.max_attempts:
            return DeadLetterCause.ATTEMPTS, nack.reason
        case NackKind.UNCOUNTED if handed_out >= group.max_hand_outs:
            return DeadLetterCause.DELIVERIES, why_dead(handed_out, attempts, nack.reason)
    return None
