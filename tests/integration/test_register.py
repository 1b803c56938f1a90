"""Does etcd keep a register, also when its members die, stop, or want to know who asks?"""

import asyncio
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import grpc
import pytest
from harness.etcd_register import SLACK_S, unreachable, until_answered, url
from harness.etcd_server import EtcdMember, etcd
from harness.register_contract import EMPTY, LATE_S, RegisterContract, Registers

from popmq_broker.clients.register.etcd_calls import EtcdCalls, Try
from popmq_broker.clients.register.etcd_register import WATCH_S, EtcdRegister
from popmq_broker.clients.register.open_register import open_register
from popmq_broker.clients.register.register import CALL_S, Register, Seen
from popmq_common.errors import RegisterUnreachable
from popmq_etcd.v3 import etcd_pb2 as pb
from popmq_etcd.v3 import etcd_pb2_grpc as rpc

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    """One member, for tests that leave it as it is."""
    with etcd(tmp_path_factory.mktemp("etcd")) as members:
        yield members[0]


@pytest.fixture
async def registers(alone: EtcdMember) -> AsyncIterator[Registers]:
    made: list[Register] = []
    test = uuid.uuid4().hex

    def another(group: str) -> Register:
        made.append(open_register(f"etcd://{alone.address}", test, group))
        return made[-1]

    yield another
    for register in made:
        await register.close()


class TestEtcdRegister(RegisterContract):
    ttl_s: ClassVar[float] = 1.0
    lateness_s: ClassVar[float] = 1.5


async def test_a_member_is_killed_and_comes_back(tmp_path: Path) -> None:
    """The record is there, a heartbeat goes on, and a wait that was cut says so."""
    with etcd(tmp_path) as (member,):
        one = open_register(url([member]), "c", "b")
        version = await one.swap(0, b"1")
        assert version
        await one.heartbeat("r1", 60)
        seen = await one.read()
        waiting = asyncio.ensure_future(one.wait(seen, 60))
        await asyncio.sleep(0.1)
        member.kill()
        assert "refused" in await unreachable(waiting)
        for call in (one.read(), one.swap(version, b"2"), one.heartbeat("r1", 60), one.leave("x")):
            assert member.address in await unreachable(call)
        member.spawn()
        await until_answered(one.read)
        assert await one.read() == seen
        assert await one.swap(version, b"2")
        await one.heartbeat("r1", 60)
        assert (await one.read()).alive == {"r1"}
        await one.close()


async def test_a_member_that_lost_everything(tmp_path: Path) -> None:
    """Its leases, too: a heartbeat begins again."""
    with etcd(tmp_path / "before") as (member,):
        one = open_register(url([member]), "c", "b")
        await one.heartbeat("r1", 60)
    member.folder = tmp_path / "after"
    member.folder.mkdir()
    member.spawn()
    try:
        await until_answered(lambda: one.heartbeat("r1", 60))
        assert await one.read() == Seen(None, 0, frozenset({"r1"}))
    finally:
        member.kill()
    await one.close()


async def test_three_members_of_which_one_dies_at_a_time(tmp_path: Path) -> None:
    """What was answered is there, nothing is there twice, whoever leads."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with etcd(tmp_path, 3) as members:
        answered: set[bytes] = set()
        is_over = asyncio.Event()

        async def append(letter: str) -> None:
            turned = members[ord(letter) % 3 :] + members[: ord(letter) % 3]
            one = open_register(url(turned), "c", "b")
            number = 0
            while not is_over.is_set():
                word = f"{letter}{number}".encode()
                with suppress(RegisterUnreachable):
                    seen = await one.read()
                    if word in (seen.value or b"").split():
                        number += 1  # its answer was lost
                    elif await one.swap(seen.version, (seen.value or b"") + word + b" "):
                        answered.add(word)
                        number += 1
                await asyncio.sleep(0.01)
            await one.close()

        writers = [asyncio.ensure_future(append(letter)) for letter in "abc"]
        for _ in range(3):
            victim = next(one for one in members if one.is_leader())
            await asyncio.sleep(chance.random())
            victim.kill()
            await asyncio.sleep(1.5)
            victim.spawn()
            await asyncio.to_thread(victim.wait_healthy)
        is_over.set()
        await asyncio.gather(*writers)
        last = open_register(url(members), "c", "b")
        words = ((await last.read()).value or b"").split()
        assert len(words) == len(set(words))
        assert answered <= set(words)
        for letter in b"abc":
            own = [int(word[1:]) for word in words if word[0] == letter]
            assert own == list(range(len(own)))
            assert len(own) > 20
        await last.close()


async def test_an_endpoint_that_is_stopped_is_left_for_the_next(tmp_path: Path) -> None:
    with etcd(tmp_path, 3) as members:
        members.sort(key=EtcdMember.is_leader)  # the first one asked does not lead
        one, other = (open_register(url(turn), "c", "b") for turn in (members, members[::-1]))
        version = await one.swap(0, b"1")
        assert version
        seen = await one.read()
        waiting = asyncio.ensure_future(one.wait(seen, 60))
        await asyncio.sleep(0.1)
        members[0].signal(signal.SIGSTOP)
        began_s = time.monotonic()
        assert await other.swap(version, b"2")
        assert (await waiting).value == b"2"  # its watch was at the stopped one
        assert time.monotonic() - began_s < WATCH_S + CALL_S + SLACK_S
        await one.heartbeat("r1", 60)
        assert (await one.read()).alive == {"r1"}
        for member in members[1:]:
            member.signal(signal.SIGSTOP)
        for call in (one.read(), one.swap(0, b"3"), one.heartbeat("r1", 60), one.wait(EMPTY, 60)):
            assert "Deadline Exceeded" in await unreachable(call)
        for member in members:
            member.signal(signal.SIGCONT)
        await until_answered(one.read)
        await one.close()
        await other.close()


async def test_a_leader_that_is_stopped(tmp_path: Path) -> None:
    with etcd(tmp_path, 3) as members:
        members.sort(key=EtcdMember.is_leader, reverse=True)
        one = open_register(url(members), "c", "b")
        assert await one.swap(0, b"1")
        members[0].signal(signal.SIGSTOP)
        await until_answered(one.read)
        seen = await one.read()
        await until_answered(lambda: one.swap(seen.version, b"2"))
        assert (await one.read()).value == b"2"
        await one.close()


class Lossy(rpc.KVServicer):
    """Passes swaps on to etcd, and answers none."""

    def __init__(self, member: EtcdMember) -> None:
        self._channel = grpc.aio.insecure_channel(member.address)

    async def Txn(self, request: pb.TxnRequest, context: Any) -> pb.TxnResponse:
        await rpc.KVStub(self._channel).Txn(request)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        raise AssertionError

    async def Range(self, request: pb.RangeRequest, context: Any) -> pb.RangeResponse:
        return await rpc.KVStub(self._channel).Range(request)

    async def DeleteRange(
        self, request: pb.DeleteRangeRequest, context: Any
    ) -> pb.DeleteRangeResponse:
        return await rpc.KVStub(self._channel).DeleteRange(request)

    async def close(self) -> None:
        await self._channel.close(None)


async def test_a_swap_whose_answer_was_lost_is_not_told_as_anothers(alone: EtcdMember) -> None:
    """It is tried at the next endpoint, where the version is another one: its own."""
    lossy = Lossy(alone)
    server = grpc.aio.server()
    rpc.add_KVServicer_to_server(lossy, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    group = uuid.uuid4().hex
    one = open_register(f"etcd://127.0.0.1:{port},{alone.address}", "c", group)
    assert "read" in await unreachable(one.swap(0, b"mine"))
    seen = await one.read()
    assert seen.value == b"mine"
    assert await one.swap(0, b"stale") is None
    assert await one.swap(seen.version, b"next")
    await one.close()
    await server.stop(None)
    await lossy.close()


class CountingCalls(EtcdCalls):
    count = 0

    async def call(self, act: Callable[[Try], Awaitable[object]], end_s: float) -> object:  # type: ignore[override]
        self.count += 1
        return await super().call(act, end_s)


async def test_a_change_wakes_long_before_a_wait_would_read(registers: Registers) -> None:
    one, other = registers("a"), registers("a")
    seen = EMPTY
    began_s = time.monotonic()
    for number in range(10):
        waiting = asyncio.ensure_future(other.wait(seen, 60))
        await asyncio.sleep(0.05)
        assert await one.swap(seen.version, b"%d" % number)
        seen = await waiting
    assert time.monotonic() - began_s < 10 * WATCH_S / 2


async def test_a_wait_asks_seldom(alone: EtcdMember) -> None:
    calls = CountingCalls([alone.address], None, None)
    one = EtcdRegister(calls, "c", uuid.uuid4().hex, "etcd")
    seen = await one.read()
    await one.wait(seen, 2.5 * WATCH_S)
    assert 3 <= calls.count <= 5
    await one.close()


async def test_what_was_compacted_is_read_again(alone: EtcdMember) -> None:
    group = uuid.uuid4().hex
    one = open_register(f"etcd://{alone.address}", "c", group)
    version = 0
    for number in range(3):
        version = await one.swap(version, b"%d" % number) or 0
    alone.ask("/v3/kv/compaction", {"revision": version, "physical": True})
    calls = EtcdCalls([alone.address], None, None)
    began_s = time.monotonic()
    key = f"/popmq/c/{group}/record".encode()
    await calls.change(pb.WatchCreateRequest(key=key, start_revision=1), 60)
    assert time.monotonic() - began_s < LATE_S
    assert await one.swap(version, b"last")
    await calls.close()
    await one.close()
