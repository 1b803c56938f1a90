"""What users, clients and topics have at a time: calls, waiting receives, connections.

Counted at this proxy, for those that have such a limit and for nobody else.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from popmq_common.errors import LimitReached
from popmq_proxy.core.access.limits import Ceilings, Limits, ceilings
from popmq_proxy.rpc.shared.context import CallContext

AGAIN_MS: Final = 1_000
"""When one who is refused is to come back: nobody knows when a place is free."""
KINDS: Final = ("User", "Client", "Topic")
Held = list[tuple["Places", str]]
"""What is to be given back: whose places, and the subject."""


class Places:
    """One kind of thing that a subject has a bounded number of."""

    def __init__(self, what: str, amount: Callable[[Limits], int]) -> None:
        """`what`: text of the refusal; `{limit}` in it is filled in."""
        self._what = what
        self._amount = amount
        self._ceilings: list[tuple[str, Ceilings]] = []
        self._taken: dict[str, int] = {}
        """By subject; of those that have any."""

    @property
    def are_limited(self) -> bool:
        """Somebody has such a limit."""
        return bool(self._ceilings)

    def changed(self, limits: Mapping[str, Limits]) -> None:
        """What was taken counts on."""
        found = ((kind, ceilings(limits, kind, self._amount)) for kind in KINDS)
        self._ceilings = [(kind, one) for kind, one in found if one is not None]

    def limits_of(self, ctx: CallContext, topic: str = "") -> list[tuple[str, int]]:
        """(subject, limit) of those this call counts for; mostly none."""
        found = []
        for kind, one in self._ceilings:
            name = _name(kind, ctx, topic)
            limit = one.of(name) if name else 0
            if limit:
                found.append((f"{kind}:{name}", limit))
        return found

    def check(self, limits: Iterable[tuple[str, int]]) -> None:
        """There is one more place for each. Raises `LimitReached`."""
        for subject, limit in limits:
            if self._taken.get(subject, 0) >= limit:
                what = self._what.format(limit=limit)
                raise LimitReached(subject=subject, what=what, wait_ms=AGAIN_MS)

    def take(self, subject: str) -> None:
        self._taken[subject] = self._taken.get(subject, 0) + 1

    def give(self, subject: str) -> None:
        left = self._taken.get(subject, 0) - 1
        if left > 0:
            self._taken[subject] = left
        else:
            self._taken.pop(subject, None)


class InUse:
    def __init__(self) -> None:
        self.calls = Places("have {limit} calls under way at a time", lambda one: one.calls)
        self.receives = Places(
            "have {limit} receives wait at a time", lambda one: one.waiting_receives
        )
        self.connections = Places("have {limit} connections at a time", lambda one: one.connections)

    def changed(self, limits: Mapping[str, Limits]) -> None:
        for places in (self.calls, self.receives, self.connections):
            places.changed(limits)

    def admit_connection(self, ctx: CallContext) -> None:
        """The connection counts for the user and the client of each call that comes on it, until it
        ends. Raises `LimitReached`: it is one too many, and is of use when another one has ended.
        """
        connection, places = ctx.connection, self.connections
        if connection is None or connection.closed:
            return
        limits = places.limits_of(ctx)
        new = [one for one in limits if one[0] not in connection.counted]
        places.check(new)
        for subject, _ in new:
            places.take(subject)
            connection.count_for(subject, places.give)

    def begin(self, ctx: CallContext, received_topic: str | None = None) -> Held:
        """A call, to be given back at its end; `received_topic`: it may wait for messages of that.
        Raises `LimitReached`; then nothing was taken."""
        held: Held = []
        if self.calls.are_limited:
            limits = self.calls.limits_of(ctx)
            self.calls.check(limits)
            held += [(self.calls, subject) for subject, _ in limits]
        if received_topic is not None and self.receives.are_limited:
            limits = self.receives.limits_of(ctx, received_topic)
            self.receives.check(limits)
            held += [(self.receives, subject) for subject, _ in limits]
        for places, subject in held:
            places.take(subject)
        return held

    def are_none(self, ctx: CallContext) -> bool:
        """Calls and connections of this user and client are without a limit."""
        return not (self.calls.limits_of(ctx) or self.connections.limits_of(ctx))


def end(held: Held) -> None:
    for places, subject in held:
        places.give(subject)


def _name(kind: str, ctx: CallContext, topic: str) -> str:
    """Empty: the call has none; operators' calls need no client id."""
    if kind == "User":
        return ctx.user
    if kind == "Topic":
        return topic
    return ctx.client_id if ctx.metadata.get("x-mq-client-id", "").strip() else ""
