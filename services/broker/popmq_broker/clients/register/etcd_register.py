"""A register in etcd, version 3.4 or newer.

    PREFIX/record          the value; its version is etcd's mod_revision of this key
    PREFIX/alive/REPLICA   empty, with a lease: of a heartbeat

PREFIX is /popmq/CLUSTER/BROKER. One read brings all of it, as of one moment. etcd counts heartbeats
in whole seconds, grants more than was asked for when that is less than its own election time-out,
and starts them anew when its leader changes; so one may last longer than asked, never shorter.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import grpc

from popmq_broker.clients.register.etcd_calls import (
    EtcdAnswer,
    EtcdCalls,
    EtcdRefused,
    EtcdSilent,
    Try,
)
from popmq_broker.clients.register.register import (
    CALL_S,
    Seen,
    checked_name,
    checked_ttl_s,
    checked_value,
)
from popmq_common.errors import RegisterUnreachable
from popmq_etcd.v3 import etcd_pb2 as pb

WATCH_S: Final = 2.0
"""So long a wait hears nothing before it reads, and so finds out that its endpoint is silent."""
T = TypeVar("T")


class _Lease(NamedTuple):
    id: int
    ttl_s: int


class _ReadAt(NamedTuple):
    seen: Seen
    revision: int
    """Of the whole store, when it was read."""


class EtcdRegister:
    def __init__(self, calls: EtcdCalls, cluster: str, broker: str, name: str) -> None:
        """It closes `calls`. `name` says in errors which etcd it is."""
        self._calls = calls
        self._prefix = f"/popmq/{cluster}/{broker}/"
        self._range = self._prefix.encode(), self._prefix[:-1].encode() + b"0"
        self._record = self._range[0] + b"record"
        self._alive = self._range[0] + b"alive/"
        self._name = f"{name}{self._prefix}"
        self._leases: dict[str, _Lease] = {}
        """By replica: the lease of its newest heartbeat."""

    async def read(self) -> Seen:
        return (await self._read()).seen

    async def swap(self, version: int, value: bytes) -> int | None:
        put = pb.PutRequest(key=self._record, value=checked_value(value))
        asked = pb.TxnRequest(
            compare=[self._version_is(version)], success=[pb.RequestOp(request_put=put)]
        )
        answer = await self._call(lambda tried: _txn(tried, asked), _end_s())
        if answer.value.succeeded:
            return answer.value.header.revision
        if answer.is_doubtful:
            reason = "one endpoint did not answer, and then another version was there: read"
            raise RegisterUnreachable(register=self._name, reason=reason)
        return None

    async def wait(self, seen: Seen, timeout_s: float) -> Seen:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while True:
            now = await self._read()
            left_s = end_s - loop.time()
            if now.seen != seen or left_s <= 0:
                return now.seen
            await self._change(now.revision + 1, min(left_s, WATCH_S))

    async def heartbeat(self, replica: str, ttl_s: float) -> None:
        key = self._alive + checked_name("replica", replica).encode()
        whole_s = math.ceil(checked_ttl_s(ttl_s))
        end_s = _end_s()
        lease = self._leases.pop(replica, None)
        if lease is None or lease.ttl_s != whole_s or not await self._renewed(lease, end_s):
            lease = _Lease(await self._granted(whole_s, end_s), whole_s)
        await self._put_with(key, lease, end_s)
        self._leases[replica] = lease

    async def leave(self, replica: str) -> None:
        key = self._alive + checked_name("replica", replica).encode()
        self._leases.pop(replica, None)  # without a key it runs out unseen
        asked = pb.DeleteRangeRequest(key=key)

        async def delete(tried: Try) -> None:
            kv = tried.stubs.kv
            await kv.DeleteRange(asked, timeout=tried.timeout_s, metadata=tried.metadata)

        await self._call(delete, _end_s())

    async def close(self) -> None:
        await self._calls.close()

    async def _read(self) -> _ReadAt:
        asked = pb.RangeRequest(key=self._range[0], range_end=self._range[1])

        async def read(tried: Try) -> pb.RangeResponse:
            kv = tried.stubs.kv
            return await kv.Range(asked, timeout=tried.timeout_s, metadata=tried.metadata)

        found = (await self._call(read, _end_s())).value
        value, version, alive = None, 0, set()
        for one in found.kvs:
            if one.key == self._record:
                value, version = one.value, one.mod_revision
            elif one.key.startswith(self._alive):
                alive.add(one.key.removeprefix(self._alive).decode(errors="replace"))
        return _ReadAt(Seen(value, version, frozenset(alive)), found.header.revision)

    async def _change(self, revision: int, for_s: float) -> None:
        key, range_end = self._range
        watched = pb.WatchCreateRequest(key=key, range_end=range_end, start_revision=revision)
        try:
            await self._calls.change(watched, for_s)
        except EtcdRefused as refused:
            raise RegisterUnreachable(register=self._name, reason=refused) from refused

    async def _renewed(self, lease: _Lease, end_s: float) -> bool:
        """False: it has run out."""

        async def renew(tried: Try) -> pb.LeaseKeepAliveResponse:
            return await _keep_alive(tried, lease.id)

        return (await self._call(renew, end_s)).value.TTL > 0

    async def _granted(self, ttl_s: int, end_s: float) -> int:
        """The lease's id."""
        asked = pb.LeaseGrantRequest(TTL=ttl_s)

        async def grant(tried: Try) -> pb.LeaseGrantResponse:
            stub = tried.stubs.lease
            return await stub.LeaseGrant(asked, timeout=tried.timeout_s, metadata=tried.metadata)

        return (await self._call(grant, end_s)).value.ID

    async def _put_with(self, key: bytes, lease: _Lease, end_s: float) -> None:
        """Unless it is there with this very lease. It may have another one: of a process before
        this one, or of a put whose answer was lost."""
        has_it = pb.Compare(target=pb.Compare.LEASE, key=key, lease=lease.id)
        put = pb.PutRequest(key=key, lease=lease.id)
        asked = pb.TxnRequest(compare=[has_it], failure=[pb.RequestOp(request_put=put)])
        await self._call(lambda tried: _txn(tried, asked), end_s)

    def _version_is(self, version: int) -> pb.Compare:
        if version == 0:
            return pb.Compare(target=pb.Compare.CREATE, key=self._record, create_revision=0)
        return pb.Compare(target=pb.Compare.MOD, key=self._record, mod_revision=version)

    async def _call(self, act: Callable[[Try], Awaitable[T]], end_s: float) -> EtcdAnswer[T]:
        """Raises `RegisterUnreachable`."""
        try:
            return await self._calls.call(act, end_s)
        except (EtcdRefused, EtcdSilent) as failed:
            raise RegisterUnreachable(register=self._name, reason=failed) from failed


async def _txn(tried: Try, asked: pb.TxnRequest) -> pb.TxnResponse:
    return await tried.stubs.kv.Txn(asked, timeout=tried.timeout_s, metadata=tried.metadata)


async def _keep_alive(tried: Try, lease_id: int) -> pb.LeaseKeepAliveResponse:
    call = tried.stubs.lease.LeaseKeepAlive(None, timeout=tried.timeout_s, metadata=tried.metadata)
    try:
        await call.write(pb.LeaseKeepAliveRequest(ID=lease_id))
        async for answered in call:
            return answered
        raise EtcdRefused(grpc.StatusCode.CANCELLED, "the lease's stream ended without an answer")
    finally:
        call.cancel()


def _end_s() -> float:
    return asyncio.get_running_loop().time() + CALL_S
