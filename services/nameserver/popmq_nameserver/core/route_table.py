"""Brokers and their topics: register, keep alive, expire, look up.

    (absent) ──register──► registered ──unregister, or silent for expiry_ms──► (absent)
                              │ ▲ register again: a newer process, or newer topics, take over
                              └─┘ heartbeat, update of some topics

A broker process is (name, epoch); `version` counts its changes of topics. An older epoch never
replaces a newer one, so a process that was thought dead cannot undo its successor's registration.

Source: RocketMQ RouteInfoManager. Differs: a registration replaces all topics of its broker, so a
topic that was deleted disappears from the routes.
"""

from dataclasses import dataclass

from popmq_common.errors import TooManyRequests
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.core.route_changes import RouteChanges

BROKERS_MAX = 1_000


@dataclass(slots=True)
class Registration:
    broker: ns.BrokerInfo
    topics: dict[str, link.TopicConfig]
    seen_ms: int


class RouteTable:
    def __init__(self, expiry_ms: int) -> None:
        self._expiry_ms = expiry_ms
        self._registrations: dict[str, Registration] = {}
        self.changes = RouteChanges()

    def __repr__(self) -> str:
        names = ", ".join(
            f"{name}: {len(found.topics)} topics"
            for name, found in sorted(self._registrations.items())
        )
        return f"<RouteTable [{names}]>"

    def register(self, broker: ns.BrokerInfo, topics: list[link.TopicConfig], now_ms: int) -> bool:
        """False: a newer process of that name, or newer topics of this one, are registered.

        Raises `TooManyRequests` for a new name beyond `BROKERS_MAX`.
        """
        known = self._registrations.get(broker.name)
        if known is not None:
            order = (broker.epoch_ms, broker.version)
            if order < (known.broker.epoch_ms, known.broker.version):
                return False
        elif len(self._registrations) >= BROKERS_MAX:
            raise TooManyRequests(what="brokers", limit=BROKERS_MAX)
        by_name = {topic.name: topic for topic in topics}
        before = {} if known is None else known.topics
        moved = known is not None and known.broker.address != broker.address
        self._registrations[broker.name] = Registration(broker, by_name, now_ms)
        self.changes.changed(
            name
            for name in sorted(by_name.keys() | before.keys())
            if moved or by_name.get(name) != before.get(name)
        )
        return True

    def update(self, request: ns.UpdateRequest, now_ms: int) -> bool:
        """False: this process is not registered with the version that the change is of."""
        known = self._registrations.get(request.broker.name)
        if known is None or known.broker.epoch_ms != request.broker.epoch_ms:
            return False
        if known.broker.version != request.from_version:
            return False
        known.topics.update({topic.name: topic for topic in request.topics})
        for name in request.gone:
            known.topics.pop(name, None)
        known.broker, known.seen_ms = request.broker, now_ms
        self.changes.changed([*(topic.name for topic in request.topics), *request.gone])
        return True

    def heartbeat(self, broker: ns.BrokerInfo, now_ms: int) -> bool:
        """False: this process and version are not what is registered; it must register."""
        known = self._registrations.get(broker.name)
        if known is None or known.broker != broker:
            return False
        known.seen_ms = now_ms
        return True

    def unregister(self, broker: ns.BrokerInfo) -> None:
        """Takes out this process' registration, never its successor's."""
        known = self._registrations.get(broker.name)
        if known is not None and known.broker.epoch_ms == broker.epoch_ms:
            self._remove(broker.name)

    def expire(self, now_ms: int) -> list[str]:
        """Takes out the silent brokers; returns their names."""
        silent = [
            name
            for name, found in self._registrations.items()
            if now_ms - found.seen_ms > self._expiry_ms
        ]
        for name in silent:
            self._remove(name)
        return silent

    def _remove(self, broker: str) -> None:
        self.changes.changed(sorted(self._registrations.pop(broker).topics))

    def lookup(self, topic: str) -> list[ns.QueueRoute]:
        """By broker name; empty when no broker has the topic."""
        return [
            ns.QueueRoute(broker=found.broker, topic=found.topics[topic])
            for _, found in sorted(self._registrations.items())
            if topic in found.topics
        ]

    def topic_count(self) -> int:
        """Topics that some broker has."""
        return len({topic for found in self._registrations.values() for topic in found.topics})

    def brokers(self) -> list[ns.BrokerInfo]:
        return [found.broker for _, found in sorted(self._registrations.items())]
