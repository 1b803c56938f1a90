"""Keeps the broker registered with every nameserver: at start, on changed topics, by heartbeats.

Nameservers do not know each other; each has its own `Announcer`, and one that does not answer
holds up none of the others.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import grpc
from google.protobuf.message import Message

from popmq_common.link.link_secret import SecretClaim, proof
from popmq_common.process import logs
from popmq_common.process.logs import Log
from popmq_common.tls.files import TlsFiles
from popmq_common.tls.grpc_tls import FollowingStub
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc

HEARTBEAT_S = 5.0
CALL_S = 3.0
RETRY_S = 1.0  # after a call that failed
AGAIN_S = 0.1  # before registering where the broker is unknown: soon, but without spinning
CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
"""gRPC's own backoff goes up to two minutes, in which a nameserver that is back is not seen."""


class Announcer(Protocol):
    """One nameserver as a broker sees it; every method may raise `ConnectionError`."""

    async def register(self, request: ns.RegisterRequest) -> bool:
        """False: refused."""
        ...

    async def update(self, request: ns.UpdateRequest) -> bool:
        """False: it is not known as the request says; it must register."""
        ...

    async def heartbeat(self, broker: ns.BrokerInfo) -> bool: ...
    async def unregister(self, broker: ns.BrokerInfo) -> None: ...


class GrpcAnnouncer:
    def __init__(
        self,
        address: str,
        secret: bytes = b"",
        remembered_as: Callable[[str], None] = lambda _: None,
        tls: TlsFiles | None = None,
    ) -> None:
        """`secret`: proved to a nameserver that asks for it; empty: there is none. `remembered_as`
        gets the identity with which the nameserver knows the broker, when it is another one.
        Raises `ConfigError` for files that cannot be used."""
        self.address = address
        self._remembered_as = remembered_as
        self._secret = secret
        log = logs.get("broker")
        self._stub = FollowingStub(address, ns_grpc.NameserverStub, tls, CHANNEL_OPTIONS, log)

    async def register(self, request: ns.RegisterRequest) -> bool:
        with self._lost():
            proven = await self._proven(SecretClaim.REGISTER, request)
            request = request if proven is None else ns.RegisterRequest(proven=proven)
            response = await self._stub.current().Register(request, timeout=CALL_S)
        if response.identity_before:
            self._remembered_as(response.identity_before)
        return response.accepted

    async def update(self, request: ns.UpdateRequest) -> bool:
        try:
            proven = await self._proven(SecretClaim.UPDATE, request)
            request = request if proven is None else ns.UpdateRequest(proven=proven)
            return (await self._stub.current().Update(request, timeout=CALL_S)).known
        except grpc.aio.AioRpcError as failed:
            if failed.code() is grpc.StatusCode.UNIMPLEMENTED:  # of an older version
                return False
            raise ConnectionError(self._stub.reason(failed)) from failed

    async def heartbeat(self, broker: ns.BrokerInfo) -> bool:
        with self._lost():
            request = ns.HeartbeatRequest(broker=broker)
            proven = await self._proven(SecretClaim.HEARTBEAT, request)
            request = request if proven is None else ns.HeartbeatRequest(proven=proven)
            return (await self._stub.current().Heartbeat(request, timeout=CALL_S)).known

    async def unregister(self, broker: ns.BrokerInfo) -> None:
        try:
            with self._lost():
                request = ns.UnregisterRequest(broker=broker)
                proven = await self._proven(SecretClaim.UNREGISTER, request)
                request = request if proven is None else ns.UnregisterRequest(proven=proven)
                await self._stub.current().Unregister(request, timeout=CALL_S)
        finally:
            await self._stub.close()

    async def _proven(self, claim: SecretClaim, request: Message) -> ns.Proven | None:
        """None: it goes as it is, for we have no secret, or the nameserver asks for none."""
        if not self._secret:
            return None
        try:
            challenge = await self._stub.current().Challenge(ns.ChallengeRequest(), timeout=CALL_S)
        except grpc.aio.AioRpcError as failed:
            if failed.code() is grpc.StatusCode.UNIMPLEMENTED:  # of a version before proofs
                return None
            raise
        if not challenge.nonce:
            return None
        data = request.SerializeToString()
        shown = proof(self._secret, claim, challenge.nonce, data)
        return ns.Proven(request=data, nonce=challenge.nonce, proof=shown)

    @contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as failed:
            raise ConnectionError(self._stub.reason(failed)) from failed


class AnnouncedTopics(Protocol):
    """What is announced."""

    @property
    def version(self) -> int: ...
    def everything(self) -> list[link.TopicConfig]: ...
    def since(self, version: int) -> tuple[list[link.TopicConfig], list[str]] | None:
        """(those that changed, names of those that are gone); None: not known any more."""
        ...


class Registrar:
    def __init__(
        self,
        announcer: Announcer,
        broker: ns.BrokerInfo,
        topics: AnnouncedTopics,
        log: Log,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._heartbeat_s = heartbeat_s
        self._announcer = announcer
        self._broker = broker
        self._topics = topics
        self._log = log
        self._changed = asyncio.Event()
        self._reachable = True
        self._refused = False
        self._told_version: int | None = None
        """Of the topics that the nameserver has; None: it has none of ours."""
        self._telling: asyncio.Task[bool] | None = None

    async def announce(self) -> None:
        """Tell of the topics as they are now; if that fails, `run` goes on trying.

        Changes that come while the nameserver is told of earlier ones are told together.
        """
        wanted = self._topics.version
        try:
            while self._told_version is None or self._told_version < wanted:
                if not await self.register():
                    return
        except ConnectionError as failed:
            self._note(failed)
            self._changed.set()

    async def run(self) -> None:
        """Register, then heartbeats; for ever."""
        registered = False
        while True:
            try:
                if self._changed.is_set() or not registered or self._topics_are_new():
                    self._changed.clear()
                    registered = await self.register()
                else:
                    registered = await self._announcer.heartbeat(self._broker)
                self._note(None)
            except ConnectionError as failed:
                registered = False
                self._note(failed)
            if not registered:
                self._told_version = None
            await self._rest(self._pause_s(registered))

    def _pause_s(self, registered: bool) -> float:
        if not self._reachable:
            return RETRY_S
        # refused: another process has the name; perhaps it goes away, but not because we ask often
        return self._heartbeat_s if registered or self._refused else AGAIN_S

    def _topics_are_new(self) -> bool:
        """Dead letter topics appear without anybody waiting for their announcement."""
        return self._topics.version != self._broker.version

    async def register(self) -> bool:
        """False: refused. One at a time, or an older list could arrive after a newer one."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())
            self._telling.add_done_callback(_retrieve)
        return await asyncio.shield(self._telling)

    async def _tell(self) -> bool:
        """What changed, where that is enough; everything else."""
        before = self._told_version
        self._told_version = None  # until it is known
        version = self._broker.version = self._topics.version
        accepted = await self._update(before) or await self._register()
        self._told_version = version if accepted else None
        if accepted == self._refused:  # a line per change of state
            if accepted:
                self._log.warning("register.accepted")
            else:
                self._log.error("register.refused", reason="a newer process has this broker's name")
        self._refused = not accepted
        return accepted

    async def _update(self, before: int | None) -> bool:
        changes = None if before is None else self._topics.since(before)
        if before is None or changes is None:
            return False
        topics, gone = changes
        request = ns.UpdateRequest(
            broker=self._broker, from_version=before, topics=topics, gone=gone
        )
        return await self._announcer.update(request)

    async def _register(self) -> bool:
        topics = self._topics.everything()
        return await self._announcer.register(
            ns.RegisterRequest(broker=self._broker, topics=topics)
        )

    async def stop(self) -> None:
        try:
            await self._announcer.unregister(self._broker)
        except ConnectionError as failed:
            self._note(failed)

    async def _rest(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._changed.wait()
        except TimeoutError:
            return

    def _note(self, failed: ConnectionError | None) -> None:
        """A line per change of state, not per heartbeat."""
        reachable = failed is None
        if reachable != self._reachable:
            event = "nameserver.reached" if reachable else "nameserver.lost"
            self._log.warning(event, reason=str(failed or ""))
        self._reachable = reachable


def _retrieve(task: "asyncio.Task[bool]") -> None:
    """Whoever waits for it gets its error; perhaps nobody does any more."""
    if not task.cancelled():
        task.exception()
