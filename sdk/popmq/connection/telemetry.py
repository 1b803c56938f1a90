"""The Telemetry stream: what this client publishes and subscribes, and its heartbeats."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.group_policy import UNKNOWN, GroupPolicy
from popmq.connection.connection import DENIED, NO_ANSWER
from popmq.log_fields import fields

HEARTBEAT_S = 10.0
SETTINGS_S = 5.0
log = logging.getLogger(__name__)


class Telemetry:
    """One stream for publishing and one per consumer group, opened at first use."""

    def __init__(self, stub: Any, metadata: Callable[[], Any]) -> None:
        self._stub = stub
        self.metadata = metadata
        self._settings: dict[str, v2.Settings] = {}
        self.orphans: Callable[[service.RecoverOrphanedTransactionCommand], None] = lambda _: None
        """Called with each question about a transaction."""
        self._policies: dict[str, GroupPolicy] = {}
        """Of groups, as the server has said."""
        self._streams: dict[str, Any] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._answered: dict[str, asyncio.Event] = {}
        self._untold: set[str] = set()
        """Those whose settings no server has heard."""
        self._denied: set[str] = set()
        """Those that the server denies access. They are not tried again by themselves; the calls
        that need them raise."""
        self._beating: asyncio.Task[None] | None = None

    async def publish(self, topic: v2.Resource) -> None:
        settings = self._settings.setdefault("", v2.Settings(client_type=v2.PRODUCER))
        is_new = topic not in settings.publishing.topics
        if is_new:
            settings.publishing.topics.append(topic)
        if is_new or "" in self._denied:
            await self._sync("")

    async def subscribe(
        self, topic: v2.Resource, group: v2.Resource, wanted: v2.FilterExpression
    ) -> None:
        entry = v2.SubscriptionEntry(topic=topic, expression=wanted)
        name = f"group {group.name}"
        settings = self._settings.setdefault(name, v2.Settings(client_type=v2.SIMPLE_CONSUMER))
        is_new = entry not in settings.subscription.subscriptions
        if is_new:
            settings.subscription.group.CopyFrom(group)
            settings.subscription.subscriptions.append(entry)
        if is_new or name in self._denied:
            await self._sync(name)

    async def told(self, group: str) -> bool:
        """The server knows the group's subscriptions, after another try if need be."""
        name = f"group {group}"
        return self._told(name) or await self._sync(name)

    def _told(self, name: str) -> bool:
        return name in self._streams and name not in self._untold

    def policy(self, group: str) -> GroupPolicy:
        """UNKNOWN as long as the server has not said it."""
        return self._policies.get(group, UNKNOWN)

    async def _sync(self, name: str) -> bool:
        """Tell the server. It serves clients it knows nothing of, so a failure is only logged, and
        False."""
        self._untold.add(name)
        self._denied.discard(name)
        try:
            async with asyncio.timeout(SETTINGS_S):
                stream = self._streams.get(name)
                if stream is None or stream.done():
                    stream = self._open(name)
                answered = self._answered[name]
                answered.clear()
                await stream.write(service.TelemetryCommand(settings=self._settings[name]))
                await answered.wait()
            if not stream.done() or await stream.code() not in NO_ANSWER:
                self._untold.discard(name)
        except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError) as failed:
            if isinstance(failed, grpc.aio.AioRpcError) and failed.code() not in NO_ANSWER:
                self._untold.discard(name)  # it wants to know nothing
            log.debug("settings of %r were not taken: %r", name, failed)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        return self._told(name)

    def _open(self, name: str) -> Any:
        stream = self._streams[name] = self._stub.Telemetry(None, metadata=self.metadata())
        answered = self._answered[name] = asyncio.Event()
        self._readers[name] = asyncio.create_task(self._read(name, stream, answered))
        return stream

    async def _read(self, name: str, stream: Any, answered: asyncio.Event) -> None:
        """What the server says, until the stream ends."""
        try:
            async for command in stream:
                if command.status.code in DENIED:
                    self._deny(name, command.status.message)
                if _is_answer(command, self._settings[name]):
                    answered.set()
                if command.settings.HasField("subscription"):
                    group = command.settings.subscription.group.name
                    self._policies[group] = GroupPolicy.of(command.settings)
                if command.HasField("recover_orphaned_transaction_command"):
                    self.orphans(command.recover_orphaned_transaction_command)
        except grpc.aio.AioRpcError as failed:
            if failed.code() in DENIED:
                self._deny(name, failed.details())
            log.debug("a telemetry stream has ended: %r", failed)
        finally:
            answered.set()

    def _deny(self, name: str, text: str | None) -> None:
        self._denied.add(name)
        whose = name or "the producer"
        log.warning("the server denies access to %s: %s", whose, text, extra=fields(None, text))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            for name, settings in list(self._settings.items()):
                if name in self._denied:
                    continue
                if self._streams[name].done():
                    await self._sync(name)
                request = service.HeartbeatRequest(client_type=settings.client_type)
                if name:
                    request.group.CopyFrom(settings.subscription.group)
                try:
                    answer = await self._stub.Heartbeat(
                        request, timeout=SETTINGS_S, metadata=self.metadata()
                    )
                    if answer.status.code in DENIED:
                        self._deny(name, answer.status.message)
                except grpc.aio.AioRpcError as failed:
                    if failed.code() in DENIED:
                        self._deny(name, failed.details())
                    log.debug("heartbeat failed: %r", failed)

    async def close(self, timeout_s: float) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        if not self._settings:
            return
        try:
            await self._stub.NotifyClientTermination(
                service.NotifyClientTerminationRequest(),
                timeout=timeout_s,
                metadata=self.metadata(),
            )
        except grpc.aio.AioRpcError as failed:
            log.debug("termination was not taken: %r", failed)
        for stream in self._streams.values():
            stream.cancel()
        readers = list(self._readers.values())
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


def _is_answer(command: Any, asked: v2.Settings) -> bool:
    """The server has dealt with these settings: it sends them back with its own. Else it asks
    something, or repeats its answer to earlier ones, which named fewer topics."""
    if command.WhichOneof("command") != "settings":
        return False
    told = command.settings
    return bool(
        told.subscription.subscriptions == asked.subscription.subscriptions
        and told.publishing.topics == asked.publishing.topics
    )
