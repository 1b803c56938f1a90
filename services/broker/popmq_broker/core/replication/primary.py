"""A primary's view of its group: what its followers have on disk, and so what is committed.

    own fdatasync ──┐
                    ├─► commit point = the least end over the in-sync set, never falling
    acks ───────────┘

While a change of the set is on its way to the register both sets must have a record: a member that
is removed counts until the register says that it is out, and one that is added counts before.
The set never gets smaller than `min_in_sync`, so every member of it has all that is committed, and
any of them may become primary. With too few of them at work nothing is committed, nothing is lost.

    follower        in the set             not in the set
    --------------  ---------------------  -----------------------------------------
    keeps up        (stays)                added once it has all that is committed and
                                           the first record of this epoch
    silent or slow  removed, if enough     (stays out)
    for lag_ms      are left
    another         another directory: it  as any other
    incarnation     must catch up first

Source: Kafka's in-sync replicas (KIP-966 for the minimum), RocketMQ's SyncStateSet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from popmq_broker.core.replication.group_record import GroupRecord
from popmq_common.errors import AckBeyondLog, StaleEpoch


@dataclass(slots=True)
class Follower:
    """A replica that fetches from this primary."""

    incarnation: str
    address: str
    session: int
    """Which of its handshakes this is: what an earlier one says counts no more."""
    durable_end: int
    """Its log is on disk up to here, and equal to ours."""
    heard_ms: int
    caught_up_ms: int
    """The last time of which it is known that it has, by now, all that was appended then."""
    mark_end: int
    """Where our log ended at `mark_ms`: once it has that, it had caught up then. Under load it
    never has all that is appended *now*."""
    mark_ms: int


class Primary:
    def __init__(
        self,
        replica: str,
        incarnation: str,
        record: GroupRecord,
        *,
        epoch_end: int,
        durable_end: int,
        lag_ms: int,
        now_ms: int,
    ) -> None:
        """`record`: what the register holds; its epoch is this primary's. `epoch_end`: behind the
        epoch's first record. `durable_end`: the own log is on disk up to there."""
        assert record.primary == replica
        assert record.counts(replica, incarnation)
        self.replica = replica
        self.record = record
        self.proposed: GroupRecord | None = None
        """What the register has been asked to hold instead; nobody knows yet whether it does."""
        self.followers: dict[str, Follower] = {}
        self.commit_point = 0
        self._durable_end = durable_end
        self._epoch_end = epoch_end
        self._lag_ms = lag_ms
        self._began_ms = now_ms
        self._sessions = 0

    # --- what is on disk ---

    def synced(self, log_end: int) -> int:
        """The own log is on disk up to there. The commit point now."""
        self._durable_end = max(self._durable_end, log_end)
        return self._advance()

    def joined(
        self, replica: str, incarnation: str, address: str, durable_end: int, now_ms: int
    ) -> int:
        """A follower whose log is equal to ours up to `durable_end` begins to fetch. Its session.

        Before it is told, nothing that it says counts.
        """
        self._sessions += 1
        before = self.followers.get(replica)
        caught_up_ms = now_ms - self._lag_ms
        if before is not None and before.incarnation == incarnation:
            caught_up_ms = before.caught_up_ms
        self.followers[replica] = Follower(
            incarnation=incarnation,
            address=address,
            session=self._sessions,
            durable_end=durable_end,
            heard_ms=now_ms,
            caught_up_ms=caught_up_ms,
            mark_end=self._durable_end,
            mark_ms=now_ms,
        )
        return self._sessions

    def heard(
        self, replica: str, session: int, epoch: int, durable_end: int, log_end: int, now_ms: int
    ) -> int:
        """A follower's log is on disk up to `durable_end`. `log_end`: what has been appended here.
        The commit point now.

        Raises `StaleEpoch` for one that must begin anew, `AckBeyondLog`.
        """
        follower = self.followers.get(replica)
        if epoch != self.record.epoch or follower is None or follower.session != session:
            raise StaleEpoch(replica=replica, epoch=epoch, now=self.record.epoch)
        if durable_end > log_end:
            raise AckBeyondLog(replica=replica, acked=durable_end, end=log_end)
        follower.durable_end = max(follower.durable_end, durable_end)
        follower.heard_ms = now_ms
        if follower.durable_end >= follower.mark_end:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.mark_ms)
            follower.mark_end, follower.mark_ms = log_end, now_ms
        if follower.durable_end >= log_end:
            follower.caught_up_ms = now_ms
        return self._advance()

    def left(self, replica: str, session: int) -> None:
        """It stops. It is behind from now on, without a wait."""
        follower = self.followers.get(replica)
        if follower is not None and follower.session == session:
            follower.heard_ms -= self._lag_ms

    def _advance(self) -> int:
        ends = [self._end_of(replica, one) for replica, one in self._counted()]
        if len(self.record.in_sync) >= self.record.min_in_sync:
            self.commit_point = max(self.commit_point, min(ends))
        return self.commit_point

    def _counted(self) -> list[tuple[str, str]]:
        """Members that must have a record, each with its incarnation."""
        counted = list(self.record.in_sync.items())
        if self.proposed is not None:
            counted += self.proposed.in_sync.items()
        return counted

    def _end_of(self, replica: str, incarnation: str) -> int:
        if replica == self.replica:
            return self._durable_end
        follower = self.followers.get(replica)
        if follower is None or follower.incarnation != incarnation:
            return 0
        return follower.durable_end

    # --- who is in sync ---

    @property
    def epoch_is_committed(self) -> bool:
        """Nothing is served before: whatever this replica had before is committed with it."""
        return self.commit_point >= self._epoch_end

    def is_silent(self, replica: str, now_ms: int) -> bool:
        follower = self.followers.get(replica)
        return follower is None or now_ms - follower.heard_ms >= self._lag_ms

    def missing(self, now_ms: int) -> list[str]:
        """Members of the set that do not keep up: while there are any, nothing is committed."""
        return sorted(
            replica
            for replica, incarnation in self.record.in_sync.items()
            if replica != self.replica and not self._keeps_up(replica, incarnation, now_ms)
        )

    def _keeps_up(self, replica: str, incarnation: str, now_ms: int) -> bool:
        follower = self.followers.get(replica)
        if follower is None or follower.incarnation != incarnation:
            return now_ms - self._began_ms < self._lag_ms
        since_ms = max(follower.caught_up_ms, self._began_ms)
        return now_ms - since_ms < self._lag_ms and now_ms - follower.heard_ms < self._lag_ms

    def propose(self, now_ms: int) -> GroupRecord | None:
        """What the register is to hold from now on; None: what it holds is right, or an answer of
        it is still awaited. The caller swaps, and calls `accepted` once it is sure."""
        if self.proposed is not None:
            return None
        in_sync = dict(self.record.in_sync)
        for replica, follower in self.followers.items():
            if self._may_be_added(replica, follower, now_ms):
                in_sync[replica] = follower.incarnation
        missing = self.missing(now_ms)
        left = {
            one: in_sync[one] for one in in_sync if one not in missing or self._is_new(one, in_sync)
        }
        if len(left) >= self.record.min_in_sync:
            in_sync = left
        if in_sync == self.record.in_sync:
            return None
        self.proposed = replace(self.record, in_sync=in_sync)
        return self.proposed

    def _is_new(self, replica: str, in_sync: Mapping[str, str]) -> bool:
        return in_sync[replica] != self.record.in_sync.get(replica)

    def _may_be_added(self, replica: str, follower: Follower, now_ms: int) -> bool:
        if self.record.counts(replica, follower.incarnation):
            return False
        needed = max(self.commit_point, self._epoch_end)
        return follower.durable_end >= needed and now_ms - follower.heard_ms < self._lag_ms

    def accepted(self) -> int:
        """The register holds what was proposed. The commit point now."""
        assert self.proposed is not None
        self.record, self.proposed = self.proposed, None
        return self._advance()

    # --- a planned stop ---

    def awaits_another(self, now_ms: int) -> bool:
        """Without this replica too few would be in sync, and a follower is on its way to be."""
        record = self.record
        if len(record.in_sync) > record.min_in_sync:
            return False
        return any(
            not record.counts(name, follower.incarnation) and not self.is_silent(name, now_ms)
            for name, follower in self.followers.items()
        )

    def candidates(self, now_ms: int) -> list[str]:
        """Members of the set that keep up, and so can take over in a moment."""
        return [
            replica
            for replica, incarnation in sorted(self.record.in_sync.items())
            if replica != self.replica
            and replica in self.followers
            and self._keeps_up(replica, incarnation, now_ms)
        ]

    def successor(self, now_ms: int, wanted: str = "") -> str | None:
        """A member of the set that has all that this replica has on disk, or None: also while a
        change of the set is on its way, which could win over the hand-over, or lose to it.
        `wanted`: no other one."""
        if self.proposed is not None:
            return None
        for replica in self.candidates(now_ms):
            has_all = self._end_of(replica, self.record.in_sync[replica]) >= self._durable_end
            if has_all and wanted in ("", replica):
                return replica
        return None

    def handed_over(self, successor: str) -> GroupRecord:
        """The record that makes it primary. Its epoch is one that nobody appends in: the successor
        begins the next one."""
        assert self.proposed is None
        address = self.followers[successor].address
        return replace(self.record, epoch=self.record.epoch + 1, primary=successor, address=address)
