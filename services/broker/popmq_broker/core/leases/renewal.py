"""Renewal: leases that last as long as their client lives.

A receive with auto_renew makes leases of `renew_ms` that name their client. A sign of life of the
client renews those that are past the middle of their time, up to a maximum since the pop:

    popped ──sign of life──► renewed ──sign of life──► renewed … until the maximum
       │                        │
       ├── silence: over when its time is, like any lease
       └── goodbye: over a moment later, and the attempt is not counted

Only the time changes. Pop time and generation stay, and with them the client's receipt handle, so
nobody has to keep a newer one for it. A lease whose time is over is never renewed.

Source: RocketMQ ReceiptHandleManager. Differs: there the proxy renews by changes of the invisible
time and keeps the newest handle; if it dies, nobody can ack.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import Grant


@dataclass(slots=True)
class _Held:
    key: QueueKey
    offsets: set[int] = field(default_factory=set)


class Renewable(NamedTuple):
    """What a client still holds of one grant."""

    grant: Grant
    key: QueueKey
    offsets: tuple[int, ...]
    """Growing."""


class RenewableLeases:
    """The live leases that can be renewed, by client. Bounded by the leases themselves."""

    def __init__(self) -> None:
        self._clients: dict[str, dict[Grant, _Held]] = {}

    def __len__(self) -> int:
        """Clients that hold something."""
        return len(self._clients)

    def add(self, key: QueueKey, grant: Grant, offsets: Iterable[int]) -> None:
        """New leases; those of a grant that is not renewed are passed over."""
        if grant.client_id:
            held = self._clients.setdefault(grant.client_id, {})
            held.setdefault(grant, _Held(key)).offsets.update(offsets)

    def drop(self, grant: Grant, queue_offsets: Iterable[int]) -> None:
        """Leases ended, or have a new grant."""
        if not grant.client_id:
            return
        grants = self._clients[grant.client_id]
        held = grants[grant]
        for offset in queue_offsets:
            held.offsets.remove(offset)
        if not held.offsets:
            del grants[grant]
            if not grants:
                del self._clients[grant.client_id]

    def of(self, client_id: str) -> list[Renewable]:
        return [
            Renewable(grant, held.key, tuple(sorted(held.offsets)))
            for grant, held in self._clients.get(client_id, {}).items()
        ]

    def due(
        self, client_ids: Iterable[str], now_ms: int, lease_ms_max: int, count_max: int
    ) -> list[Renewable]:
        """Up to `count_max` grants of these clients that a sign of life renews."""
        found: list[Renewable] = []
        for grant, held in self._grants(client_ids):
            if renewed(grant, now_ms, lease_ms_max) is not grant:
                found.append(Renewable(grant, held.key, tuple(sorted(held.offsets))))
                if len(found) == count_max:
                    break
        return found

    def _grants(self, client_ids: Iterable[str]) -> Iterator[tuple[Grant, _Held]]:
        for client_id in client_ids:
            yield from self._clients.get(client_id, {}).items()


def renewed(grant: Grant, now_ms: int, lease_ms_max: int) -> Grant:
    """The grant after a sign of life at `now_ms`; itself when it stays as it is."""
    left_ms = grant.due_ms - now_ms
    if left_ms <= 0 or left_ms > grant.renew_ms // 2:
        return grant
    due_ms = min(now_ms + grant.renew_ms, grant.pop_time_ms + lease_ms_max)
    if due_ms <= grant.due_ms:
        return grant
    return replace(grant, invisible_ms=due_ms - grant.pop_time_ms)


def returned(grant: Grant, now_ms: int, grace_ms: int) -> Grant:
    """The grant after its client's goodbye: over in a moment, uncounted, not renewed any more."""
    due_ms = min(grant.due_ms, now_ms + grace_ms)
    return replace(
        grant,
        invisible_ms=due_ms - grant.pop_time_ms,
        client_id="",
        renew_ms=0,
        counted=False,
    )
