"""Nack: a consumer gives messages back, or up.

A nack that waits for its delay is a new lease one generation higher, of which nobody gets a handle:
journaled as a change is, with the kind and the reason in the checkpoint. When it is due the revival
does what the kind says. A fatal one, a counted one after the last attempt, and an uncounted one
after the last delivery, goes to the dead letters at once.
"""

from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.core.leases.nack import Nack, NackKind, clean_reason
from popmq_broker.core.retries.deliveries import why_dead
from popmq_broker.core.retries.retry import DeadLetterCause
from popmq_broker.core.retries.retry_policy import DELAY_MS_MAX
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.ack import OUTCOMES, Ack
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
        """One outcome per handle, in order. Raises `BadRequest`, `GroupNotFound`, `DiskFull`:
        then of the handles behind the failing one nothing was done."""
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
        outcomes: list[LeaseOutcome] = []
        for handle in request.handles:
            ref = receipt.decode(handle)
            queue, outcome = self._ack.judge(request.group, request.topic, ref, now_ms)
            if outcome is LeaseOutcome.DONE and queue is not None:
                self._apply(queue, ref.queue_offset, nack, request.delay_ms, now_ms)
                runtime.stats.nacked[request.topic, request.group, nack.kind.name.lower()] += 1
            outcomes.append(outcome)
        if LeaseOutcome.DONE in outcomes:
            await runtime.store.durable(runtime.store.log_end)
        return link.NackReply(outcomes=[OUTCOMES[outcome] for outcome in outcomes])

    def _apply(
        self, queue: GroupQueueState, offset: int, nack: Nack, delay_ms: int, now_ms: int
    ) -> None:
        group = self._catalog_state.group(queue.key.group)
        attempts, handed_out = self._revive.deliveries(queue, offset)
        dead: tuple[DeadLetterCause, str] | None = None
        match nack.kind:
            case NackKind.FATAL:
                dead = DeadLetterCause.REJECTED, nack.reason or REASON_FATAL
            case NackKind.COUNTED if attempts >= group.max_attempts:
                dead = DeadLetterCause.ATTEMPTS, nack.reason
            case NackKind.UNCOUNTED if handed_out >= group.max_hand_outs:
                dead = DeadLetterCause.DELIVERIES, why_dead(handed_out, attempts, nack.reason)
        if dead is not None:
            self._revive.forward(queue, offset, *dead)
            return
        if delay_ms == AS_THE_POLICY_SAYS:
            delay_ms = group.retry_policy.delay_ms(attempts)
        self._ack.renew(queue, offset, delay_ms, now_ms, nack)
