"""What clients were told of each message, and whether what comes later agrees with it.

    answered OK       what that promises, whatever is killed
    sent              it comes, at least once
    delayed           it comes, and not before its time by the wall clock, which is the broker's too
    recalled          it never comes
    half              nobody sees it before it is committed; it is asked about until it is settled,
                      and ends as its transaction was decided
    committed         it comes, and is not asked about any more
    rolled-back       it never comes, and is not asked about any more
    acked             it does not come in a receive that begins later; until then it comes again
    changed, nacked   it does not come before its time

A transaction is decided, and that written down, before it is begun, as its producer's database
would. Whoever is asked about it answers from there. So a half message comes or does not, whether
its producer's answer came through or not.

Without an answer nobody knows: a message that was sent may come, it need not; one that was acked
may come again.

With pop_buffer=memory an ack may be undone by a crash that comes soon (docs/pop.md). So it counts
when the broker has lived on for `PRICE_S`.
"""

from dataclasses import dataclass, field

from crash.record import Record, owed, read

from apache.rocketmq.v2 import definition_pb2 as v2

CLOCKS_S = 0.05
"""The broker's wall clock and our monotonic one may differ that much over an invisible time."""
PRICE_S = 3.0
"""With pop_buffer=memory: how old an ack is when no crash undoes it; see `SETTINGS` in lives.py."""
SETTLED_S = 5.0
"""A question may be that long on its way while its transaction is settled."""


@dataclass
class Told:
    record: Record
    undone: list[str] = field(default_factory=list)
    received: set[str] = field(default_factory=set)
    deliveries: int = 0
    failures: int = 0
    questions: int = 0
    last_delivery: float = 0.0
    in_memory: bool = False
    """The broker that lives has acks in its memory alone."""
    waiting: dict[str, float] = field(default_factory=dict)
    """Owed and not received → since when, or when it is due; times are monotonic."""
    unacked: set[str] = field(default_factory=set)
    """Received, and to come again."""
    _attempted: set[str] = field(default_factory=set)
    _due_ms: dict[str, int] = field(default_factory=dict)
    _recalled: set[str] = field(default_factory=set)
    _commits: dict[str, bool] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    """Somebody has said that it is committed, and may have been heard."""
    _held_until: dict[str, float] = field(default_factory=dict)
    _settled_at: dict[str, float] = field(default_factory=dict)
    _acked_at: dict[str, float] = field(default_factory=dict)
    _unsure: dict[str, float] = field(default_factory=dict)
    """Acks that a crash may undo."""
    _hidden_until: dict[str, float] = field(default_factory=dict)
    _began: float = 0.0
    """When that broker was started."""
    _was_in_memory: bool = False
    """The one before it."""

    def begin_life(self, *, killed: float, began: float, in_memory: bool) -> None:
        """The broker was killed and starts again."""
        for body, acked in self._unsure.items():
            if acked > killed - PRICE_S:
                self._acked_at.pop(body, None)
        self._unsure.clear()
        self._began, self.in_memory, self._was_in_memory = began, in_memory, self.in_memory

    # Sends.

    def sending(self, body: str) -> None:
        self._attempted.add(body)

    def sent(self, body: str, now: float) -> None:
        self.record.write("sent", body)
        self._owe(body, now)

    def delaying(self, body: str, due_ms: int) -> None:
        self._attempted.add(body)
        self._due_ms[body] = due_ms

    def delayed(self, body: str, due: float) -> None:
        self.record.write("delayed", body)
        self._owe(body, due)

    def recalling(self, body: str) -> None:
        self.record.write("recalling", body)
        self.waiting.pop(body, None)

    def recalled(self, body: str) -> None:
        self.record.write("recalled", body)
        self._recalled.add(body)
        if body in self.received:
            self.undone.append(f"{body}: recalled after it had come")

    def recall_refused(self, body: str, code: int, now: float, now_ms: int) -> None:
        if code not in (v2.BAD_REQUEST, v2.MESSAGE_NOT_FOUND):
            self.failures += 1
            return
        self.record.write("not-recalled", body)
        self._owe(body, now)
        left_ms = self._due_ms[body] - now_ms
        if code == v2.MESSAGE_NOT_FOUND and left_ms > 0:
            self.undone.append(f"{body}: nobody knows it {left_ms} ms before its time")

    def deciding(self, body: str, *, commit: bool, held_until: float) -> None:
        """Of a transaction; asked before `held_until` its producers do not know yet."""
        self._attempted.add(body)
        self.record.write("committing" if commit else "rolling-back", body)
        self._commits[body] = commit
        self._held_until[body] = held_until

    def commits(self, body: str) -> bool:
        return self._commits[body]

    def half(self, body: str, now: float) -> None:
        self.record.write("half", body)
        if self._commits[body]:
            self._owe(body, max(now, self._held_until[body]))

    def settling(self, body: str) -> None:
        if self._commits[body]:
            self._said.add(body)

    def settled(self, body: str, now: float) -> None:
        self.record.write("committed" if self._commits[body] else "rolled-back", body)
        self._settled_at[body] = now

    def settle_refused(self, body: str, code: int) -> None:
        self.failures += 1
        if code in (v2.INVALID_TRANSACTION_ID, v2.PRECONDITION_FAILED):
            self.undone.append(f"{body}: its half message is not as it was left, code {code}")

    def asked(self, body: str, now: float) -> bool | None:
        """A question came: committed or rolled back; None: not known yet."""
        self.questions += 1
        if body not in self._commits:
            self.undone.append(f"{body}: asked about, and nobody began it")
            return None
        settled = self._settled_at.get(body)
        if settled is not None:
            if now - settled > SETTLED_S:
                self.undone.append(
                    f"{body}: asked about {now - settled:.1f} s after it was settled"
                )
            return None
        if now < self._held_until[body]:
            return None
        self.settling(body)
        return self._commits[body]

    # Receives.

    def delivered(self, body: str, invoked: float, answered: float, now_ms: int) -> None:
        """A message came in a receive that took from `invoked` to `answered`."""
        self.deliveries += 1
        self.last_delivery = answered
        self.received.add(body)
        if body not in self._acked_at:
            self.unacked.add(body)
        self.waiting.pop(body, None)
        for wrong in self._wrong(body, invoked, answered, now_ms):
            self.undone.append(f"{body}: {wrong}")

    def _wrong(self, body: str, invoked: float, answered: float, now_ms: int) -> list[str]:
        found = []
        if body not in self._attempted:
            found.append("nobody sent it")
        if body in self._recalled:
            found.append("came after its recall")
        if now_ms < self._due_ms.get(body, 0):
            found.append(f"came {self._due_ms[body] - now_ms} ms before it was due")
        if not self._commits.get(body, True):
            found.append("came though it was rolled back")
        elif body in self._commits and body not in self._said:
            found.append("came before it was committed")
        if self._acked_at.get(body, invoked) < invoked:
            found.append(f"came {invoked - self._acked_at[body]:.2f} s after its ack")
        early = self._hidden_until.pop(body, 0.0) - answered
        if early > CLOCKS_S:
            found.append(f"came {early:.2f} s before its invisible time was over")
        return found

    def acked(self, body: str, invoked: float, answered: float) -> None:
        self.record.write("acked", body)
        self.unacked.discard(body)
        if self._was_in_memory and invoked < self._began:  # which of the two has answered?
            return
        self._acked_at.setdefault(body, answered)
        if self.in_memory:
            self._unsure[body] = answered

    def not_acked(self, body: str, code: int | None) -> None:
        """An ack was refused with that code, or has no answer."""
        self.failures += 1
        if code != v2.INVALID_RECEIPT_HANDLE:
            self.unacked.discard(body)

    def hidden(self, what: str, body: str, until: float) -> None:
        """`what`: changed or nacked."""
        self.record.write(what, body)
        self._hidden_until[body] = until

    # The end.

    def _owe(self, body: str, since: float) -> None:
        if body not in self.received:
            self.waiting[body] = since

    def lost(self) -> set[str]:
        """As the record on disk has it."""
        return owed(read(self.record.path)) - self.received

    def check(self) -> None:
        assert not self.undone, f"{len(self.undone)} undone: {self.undone[:10]}"
        lost = self.lost()
        assert not lost, f"{len(lost)} lost: {sorted(lost)[:10]}"
        left = sorted(self.unacked)
        assert not left, f"{len(left)} lost after they had come, and nobody acked: {left[:10]}"
