"""What one request says of leases: those that are held, by grant, each once; and what it finds of
each message."""

from collections.abc import Sequence

from popmq_broker.core.leases.grant import Grant
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_common.records.receipt import Receipt


class LeasesByGrant:
    """Filled run by run; nothing changes before the caller does something with what is `held`."""

    def __init__(self, named_again: LeaseOutcome = LeaseOutcome.ALREADY_ACKED) -> None:
        self.outcomes: list[LeaseOutcome] = []
        """Of each message, in the order of the request."""
        self._named_again = named_again
        """Of a message that the request names for the second time."""
        self.held: dict[Grant, tuple[GroupQueueState, dict[int, None]]] = {}
        """Queue offsets by grant, as they came."""

    def unknown(self, count: int) -> None:
        """Messages of a queue that the group has nothing of."""
        self.outcomes += [LeaseOutcome.UNKNOWN] * count

    def add(
        self, queue: GroupQueueState, ref: Receipt, queue_offsets: Sequence[int], now_ms: int
    ) -> None:
        """Messages that one grant handed out, with the one of `ref`."""
        grant = queue.held_together(ref, queue_offsets, now_ms)
        offsets = dict.fromkeys(queue_offsets)
        if grant is not None and grant not in self.held and len(offsets) == len(queue_offsets):
            self.held[grant] = queue, offsets
            self.outcomes += [LeaseOutcome.DONE] * len(offsets)
            return
        for offset in queue_offsets:
            self.outcomes.append(self._add_one(queue, ref, offset, now_ms))

    def _add_one(
        self, queue: GroupQueueState, ref: Receipt, queue_offset: int, now_ms: int
    ) -> LeaseOutcome:
        outcome = queue.judge_one_of(ref, queue_offset, now_ms)
        if outcome is not LeaseOutcome.DONE:
            return outcome
        _, offsets = self.held.setdefault(queue.leases[queue_offset].grant, (queue, {}))
        if queue_offset in offsets:
            return self._named_again
        offsets[queue_offset] = None
        return LeaseOutcome.DONE
