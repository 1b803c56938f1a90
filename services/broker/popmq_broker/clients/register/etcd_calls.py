"""Calls to etcd, version 3: several endpoints, and a user who logs in.

The endpoint that answered last is asked first; when it fails, the others are asked in turn, each
for its share of the time that is left. A call may so be carried out at one endpoint, whose answer
is lost, and again at the next one: `EtcdAnswer.is_doubtful` says that it can be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import grpc

from popmq_common.process import logs
from popmq_common.process.config import ConfigError
from popmq_common.tls.files import TlsFiles, read_text
from popmq_common.tls.grpc_tls import FollowingStub
from popmq_etcd.v3 import etcd_pb2 as pb
from popmq_etcd.v3 import etcd_pb2_grpc as rpc

CHANNEL_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
)
"""Keepalives also end a connection to a machine that has vanished; etcd refuses them when they are
less than 5 s apart."""
WATCH_AGAIN_S: Final = 0.1
"""After a watch that failed, before its caller begins another one."""
REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)
"""What one endpoint answers so, the others do too."""
OLD_TOKEN: Final = (
    "invalid auth token",  # it has run out, or its member was started again
    "revision of auth store is old",
    "user name is empty",  # users have been turned on since
)
NO_USERS: Final = "authentication is not enabled"
T = TypeVar("T")


class EtcdRefused(Exception):
    """The answer is no. Nothing was done."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        super().__init__(text)


class EtcdSilent(Exception):
    """No endpoint has answered in time; nobody knows whether the call was carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdUser:
    name: str
    password_file: Path
    """Read at each log-in, without the white space around it."""


class Stubs(NamedTuple):
    """Of one endpoint."""

    kv: "rpc.KVAsyncStub"
    watch: "rpc.WatchAsyncStub"
    lease: "rpc.LeaseAsyncStub"
    auth: "rpc.AuthAsyncStub"


class Try(NamedTuple):
    """What one try of a call is made with."""

    stubs: Stubs
    metadata: tuple[tuple[str, str], ...]
    timeout_s: float


class EtcdAnswer(NamedTuple, Generic[T]):
    value: T
    is_doubtful: bool
    """Another endpoint may have carried the same call out before."""


class EtcdCalls:
    def __init__(
        self, addresses: Sequence[str], user: EtcdUser | None, tls: TlsFiles | None
    ) -> None:
        """`addresses` are host:port. Plaintext without `tls`. Make it in the event loop. Raises
        `ConfigError` for files that cannot be used."""
        log = logs.get("broker")
        self._stubs = {
            address: FollowingStub(address, _stubs, tls, CHANNEL_OPTIONS, log)
            for address in addresses
        }
        self._first = addresses[0]
        """Who is asked first."""
        self._user = user
        self._token = ""
        """Empty: not logged in, or etcd has no users."""

    async def call(self, act: Callable[[Try], Awaitable[T]], end_s: float) -> EtcdAnswer[T]:
        """`end_s`: in the loop's time. Raises `EtcdRefused`, `EtcdSilent`."""
        reasons: list[str] = []
        turns = self._turns()
        for number, address in enumerate(turns):
            share_s = (end_s - _now_s()) / (len(turns) - number)
            try:
                value = await self._call_one(address, act, _now_s() + share_s)
            except grpc.aio.AioRpcError as failed:
                reasons.append(f"{address}: {self._stubs[address].reason(failed)}")
            else:
                self._first = address
                return EtcdAnswer(value, is_doubtful=bool(reasons))
        raise EtcdSilent("; ".join(reasons))

    async def change(self, watched: pb.WatchCreateRequest, for_s: float) -> None:
        """Return at the first change, and after `for_s` at the latest; earlier when the watch
        cannot go on. It needs a call before, and one after, which tells what has changed. Raises
        `EtcdRefused`."""
        stubs = self._stubs[self._first].current()
        try:
            await _first_event(self._try(stubs, for_s), watched)
        except EtcdRefused:
            self._token = ""  # it may be just that
            raise
        except grpc.aio.AioRpcError as failed:
            if failed.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                self._first = [*self._turns(), self._first][1]
                await asyncio.sleep(WATCH_AGAIN_S)

    async def close(self) -> None:
        for stub in self._stubs.values():
            await stub.close()

    def _turns(self) -> list[str]:
        addresses = list(self._stubs)
        first = addresses.index(self._first)
        return addresses[first:] + addresses[:first]

    def _try(self, stubs: Stubs, timeout_s: float) -> Try:
        metadata = [("hasleader", "true")]  # a member that is cut off refuses, and does not wait
        if self._token:
            metadata.append(("token", self._token))
        return Try(stubs, tuple(metadata), max(0.0, timeout_s))

    async def _call_one(self, address: str, act: Callable[[Try], Awaitable[T]], end_s: float) -> T:
        """With a token that etcd does not take any more, again with a new one. Raises
        `EtcdRefused`, and `AioRpcError` if others may answer."""
        stubs = self._stubs[address].current()
        used = self._token
        try:
            return await self._logged_in(stubs, act, end_s)
        except grpc.aio.AioRpcError as failed:
            if not self._user or not any(old in _text(failed) for old in OLD_TOKEN):
                raise self._judged(failed) from failed
        if self._token == used:  # else another call has logged in since
            self._token = ""
        try:
            return await self._logged_in(stubs, act, end_s)
        except grpc.aio.AioRpcError as failed:
            raise self._judged(failed) from failed

    async def _logged_in(self, stubs: Stubs, act: Callable[[Try], Awaitable[T]], end_s: float) -> T:
        if self._user is not None and not self._token:
            asked = _authenticate_request(self._user)
            try:
                timeout_s = max(0.0, end_s - _now_s())
                self._token = (await stubs.auth.Authenticate(asked, timeout=timeout_s)).token
            except grpc.aio.AioRpcError as failed:
                if NO_USERS not in _text(failed):
                    raise
        return await act(self._try(stubs, end_s - _now_s()))

    def _judged(self, failed: grpc.aio.AioRpcError) -> Exception:
        if failed.code() not in REFUSALS:
            return failed
        return EtcdRefused(failed.code(), _text(failed) + _todo(failed, self._user))


def _stubs(channel: grpc.aio.Channel) -> Stubs:
    return Stubs(
        rpc.KVStub(channel), rpc.WatchStub(channel), rpc.LeaseStub(channel), rpc.AuthStub(channel)
    )


def _authenticate_request(user: EtcdUser) -> pb.AuthenticateRequest:
    """Raises `EtcdRefused`."""
    try:
        password = read_text(user.password_file).strip()
    except ConfigError as wrong:
        raise EtcdRefused(grpc.StatusCode.UNAUTHENTICATED, str(wrong)) from wrong
    return pb.AuthenticateRequest(name=user.name, password=password)


async def _first_event(tried: Try, watched: pb.WatchCreateRequest) -> None:
    """Also when what is watched from has been compacted away. Raises `EtcdRefused`,
    `AioRpcError`."""
    call = tried.stubs.watch.Watch(None, metadata=tried.metadata, timeout=tried.timeout_s)
    try:
        await call.write(pb.WatchRequest(create_request=watched))
        async for told in call:
            if told.canceled and not told.compact_revision:
                raise EtcdRefused(grpc.StatusCode.CANCELLED, f"watch: {told.cancel_reason}")
            if told.events or told.canceled:
                return
    finally:
        call.cancel()


def _todo(failed: grpc.aio.AioRpcError, user: EtcdUser | None) -> str:
    text = _text(failed)
    if "user name is empty" in text:
        return ": it has users, so give one and the file of its password"
    if "authentication failed" in text and user is not None:
        return f": they are {user.name!r} and the text in {user.password_file}"
    if failed.code() is grpc.StatusCode.PERMISSION_DENIED and user is not None:
        return f": grant a role of {user.name!r} readwrite on the prefix"
    return ""


def _text(failed: grpc.aio.AioRpcError) -> str:
    return failed.details() or failed.code().name


def _now_s() -> float:
    return asyncio.get_running_loop().time()
