"""Each usual mistake is found, and nothing is found where all is well."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from popmq import Tls
from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.doctor.doctor_probe import is_local, probe, unreachable
from popmq_common.process import logs
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front import tls
from popmq_readings.doctor_checks import Facts, Listener, findings
from popmq_readings.doctor_surprises import exposed, surprises, unequal

NOW = 1_700_000_000_000
PERCENT = 1_000_000


def broker(**fields: Any) -> admin.BrokerState:
    well = {
        "name": "broker-a",
        "address": "10.0.0.1:10911",
        "version": "1.0",
        "now_ms": NOW,
        "started_ms": NOW - 3_600_000,
        "data_dir": "/data",
        "disk_total_bytes": 100 * PERCENT,
        "disk_free_bytes": 50 * PERCENT,
        "disk_clean_percent": 85,
        "disk_refuse_percent": 90,
    }
    return admin.BrokerState(**{**well, **fields})


def well(*brokers: admin.BrokerState, **fields: Any) -> Facts:
    inspected = admin.InspectResponse(
        version="1.0", now_ms=NOW, brokers=brokers or [broker()], **fields.pop("inspect", {})
    )
    found = {"inspected": inspected, "asked_ms": NOW - 5, "answered_ms": NOW + 5, "version": "1.0"}
    return Facts(host="host", port=8081, **{**found, **fields})


def use(**fields: Any) -> admin.BrokerState:
    base = {"group": "g", "topic": "t", "lag": 7, "in_flight": 2, "last_receive_ms": NOW - 61_000}
    return broker(groups=[admin.GroupUse(**{**base, **fields})])


MISTAKES: dict[str, tuple[Facts, str]] = {
    "damaged messages": (
        well(
            broker(
                damaged=[
                    admin.DamagedPlace(topic="t", queue_id=1, from_offset=3, until_offset=5),
                    admin.DamagedPlace(topic="t", queue_id=1, from_offset=9, until_offset=10),
                ]
            )
        ),
        "messages-damaged",
    ),
    "a group that went over them": (
        well(broker(passed=[admin.PassedOver(group="g", topic="t", queue_id=1, count=3)])),
        "messages-passed",
    ),
    "a name that nobody knows": (
        Facts(host="hots", port=8081, listener=Listener.NO_SUCH_HOST),
        "endpoint-name",
    ),
    "nothing listens": (Facts(host="h", port=1, listener=Listener.NOTHING), "endpoint-nothing"),
    "a firewall": (Facts(host="h", port=1, listener=Listener.SILENT), "endpoint-silent"),
    "the metrics port": (Facts(host="h", port=9, listener=Listener.HTTP1), "endpoint-http"),
    "RocketMQ 4": (Facts(host="h", port=9876, listener=Listener.REMOTING), "endpoint-remoting"),
    "a broker's link": (Facts(host="h", port=10911, listener=Listener.LINK), "endpoint-link"),
    "TLS alone": (Facts(host="h", port=1, listener=Listener.TLS_ONLY), "tls-needed"),
    "no TLS": (Facts(host="h", port=1, listener=Listener.PLAINTEXT_ONLY), "tls-refused"),
    "a certificate of its own": (
        Facts(host="h", port=1, listener=Listener.UNTRUSTED, detail="self-signed"),
        "tls-untrusted",
    ),
    "a broker's port": (Facts(host="h", port=10911, listener=Listener.OTHER), "endpoint-not-grpc"),
    "Apache RocketMQ": (Facts(host="h", port=1, inspect_code="UNIMPLEMENTED"), "not-popmq"),
    "a nameserver": (Facts(host="h", port=9876, inspect_code="UNIMPLEMENTED"), "not-popmq"),
    "a proxy that fails": (Facts(host="h", port=1, inspect_code="INTERNAL"), "not-serving"),
    "an unknown user": (Facts(host="h", port=1, inspect_code="UNAUTHENTICATED"), "access-denied"),
    "a user who may not": (
        Facts(host="h", port=1, inspect_code="PERMISSION_DENIED"),
        "access-denied",
    ),
    "no nameserver": (
        Facts(
            host="h",
            port=1,
            inspected=admin.InspectResponse(version="1", nameserver_failure="refused"),
            version="1",
        ),
        "no-nameserver",
    ),
    "no broker": (
        Facts(host="h", port=1, inspected=admin.InspectResponse(version="1"), version="1"),
        "no-broker",
    ),
    "a broker that is down": (
        well(admin.BrokerState(name="b", address="a", failure="refused")),
        "broker-down",
    ),
    "a broker's clock": (well(broker(now_ms=NOW + 3_000)), "clock-skew"),
    "this machine's clock": (
        well(broker(now_ms=NOW), asked_ms=NOW + 9_000, answered_ms=NOW + 9_001),
        "clock-skew",
    ),
    "an older broker": (well(broker(version="0.9")), "versions-differ"),
    "a broker with another directory than before": (
        well(broker(replaced_peers=["b"]), broker(name="c", replaced_peers=["b"])),
        "broker-replaced",
    ),
    "a full disk": (well(broker(refusing=True)), "disk-full"),
    "a disk that is nearly full": (
        well(broker(disk_free_bytes=19 * PERCENT)),
        "disk-nearly-full",
    ),
    "the reserve is nearly used": (
        well(broker(disk_reserve_bytes=40 * PERCENT)),
        "disk-nearly-full",
    ),
    "files of another user": (well(broker(data_dir_owner="root")), "data-dir-owner"),
    "a stopped index": (well(broker(index_failed="EIO")), "index-stopped"),
    "a group without a consumer": (well(use()), "group-stuck"),
    "a group that nobody has asked for": (well(use(last_receive_ms=0)), "group-stuck"),
    "no such topic": (well(topic="t"), "topic-missing"),
    "another type": (well(topic="t", topic_type="NORMAL", wanted_type="FIFO"), "topic-type"),
    "no such group": (well(group="g", group_exists=False), "group-missing"),
    "a route into nowhere": (
        well(topic="t", topic_type="MIXED", unreachable={"10.0.0.1:8081": "timed out"}),
        "route-unreachable",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    facts, code = MISTAKES[name]
    found = findings(facts)
    assert {one.code for one in found} == {code}
    assert all(one.what and one.todo for one in found)


def test_a_server_that_others_reach_and_that_asks_nobody_is_a_note() -> None:
    """What it did not tell is not guessed, and nobody else reaches a loopback address."""
    facts = well(is_local=False, authentication=False)
    assert findings(facts) == []
    (note,) = exposed(facts)
    assert note.startswith("anyone who reaches host:8081 may read, write and delete")
    assert exposed(replace(facts, authentication=True)) == []
    assert exposed(replace(facts, authentication=None)) == []
    assert exposed(replace(facts, is_local=True)) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
async def test_hosts_that_only_this_machine_reaches(host: str) -> None:
    assert await is_local(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "8.8.8.8", "2001:db8::1", "0.0.0.0"])
async def test_hosts_that_others_may_reach(host: str) -> None:
    assert not await is_local(host)


def test_an_ipv6_endpoint_is_written_with_brackets() -> None:
    assert replace(well(), host="::1").endpoint == "[::1]:8081"


def test_the_docs_list_every_code() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "doctor.md").read_text()
    told = {
        code
        for line in text.splitlines()
        if line.startswith("| `")
        for code in re.findall(r"`([a-z-]+)`", line.split("|")[1])
    }
    assert told == {code for _, code in MISTAKES.values()}


@pytest.mark.parametrize(
    "facts",
    [
        well(),
        well(broker(disk_free_bytes=21 * PERCENT)),
        well(broker(disk_clean_percent=100, disk_free_bytes=PERCENT)),
        well(broker(now_ms=NOW + 1_900)),
        well(use(waiting_polls=1)),
        well(use(lag=2)),
        well(use(last_receive_ms=NOW - 59_000)),
        well(topic="t", topic_type="MIXED", wanted_type="FIFO", group="g"),
        well(topic="t", topic_type="FIFO", wanted_type="FIFO"),
    ],
)
def test_nothing_is_found_where_all_is_well(facts: Facts) -> None:
    assert findings(facts) == []


def test_skipped_messages_are_a_note() -> None:
    """Of all brokers together; nothing is wrong with a group that wants new messages alone."""
    brokers = [use(skipped=3, skipped_at_ms=NOW, lag=0), use(skipped=4, skipped_at_ms=NOW, lag=0)]
    assert findings(well(*brokers)) == []
    (note,) = surprises(brokers)
    assert "group g started at" in note
    assert "skipped 7 messages of topic t" in note
    assert "popmq group reset-offset g t --to-earliest" in note
    (note,) = surprises([use(skipped=1)])
    assert "skipped 1 message of" in note


def draining(*left: admin.GroupLeft, groups: Sequence[admin.GroupUse] = ()) -> str:
    """What is said of a topic whose queues 1 to 3 are too many and hold 9 messages."""
    topic = admin.DrainingTopic(topic="t", write_queues=1, read_queues=4, stored=9, left=left)
    (note,) = surprises([broker(draining=[topic], groups=groups)])
    return note


def test_queues_that_are_too_many_are_a_note() -> None:
    note = draining(admin.GroupLeft(group="g", count=5), admin.GroupLeft(group="h", count=1))
    assert note == (
        "topic t has 1 queue at broker-a now; its queues 1 to 3 take no more messages and are "
        "read until retention has deleted the 9 messages in them; not done with them: group g "
        "(5 messages), group h (1 message)"
    )
    assert draining().endswith("; no group has received of the topic yet")
    done = [admin.GroupUse(group="g", topic="t")]
    assert draining(groups=done).endswith("; every group of the topic is done with them")
    other = [admin.GroupUse(group="g", topic="another")]
    assert draining(groups=other).endswith("; no group has received of the topic yet")


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def probed(serve: Serve, *, tls: bool = False, context: Any = None) -> Listener:
    """What a server that does this is taken for."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return (await probe("127.0.0.1", port, Tls() if tls else None))[0]


async def http2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"\0\0\0\x04\0\0\0\0\0")
    await writer.drain()


async def http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    await writer.drain()


async def old_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As Python's server, to which HTTP/2.0 is no version: without a head."""
    await reader.read(10)
    writer.write(b"<!DOCTYPE HTML>")
    await writer.drain()


async def remoting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As RocketMQ's: what is no frame ends the connection."""
    length = int.from_bytes(await reader.readexactly(4))
    if length > 1 << 24:
        return
    await reader.readexactly(length)
    header = b'{"code":17,"flag":1,"opaque":1}'
    writer.write((4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header)
    await writer.drain()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def test_what_listens() -> None:
    certificate = tls.context(ProxyConfig(port=0), logs.get("test"))  # one that it made itself
    assert await probed(http2) is Listener.GRPC
    assert await probed(http1) is Listener.HTTP1
    assert await probed(remoting) is Listener.REMOTING
    assert await probed(closing) is Listener.OTHER
    assert await probed(old_http) is Listener.HTTP1
    assert await probed(http2, context=certificate) is Listener.TLS_ONLY
    assert await probed(http2, context=certificate, tls=True) is Listener.UNTRUSTED
    assert await probed(closing, tls=True) is Listener.PLAINTEXT_ONLY


async def test_nothing_listens(unused_tcp_port: int) -> None:
    assert (await probe("127.0.0.1", unused_tcp_port, None))[0] is Listener.NOTHING
    assert (await probe("no-such-host.invalid", 1, None))[0] is Listener.NO_SUCH_HOST
    found = await unreachable([("127.0.0.1", unused_tcp_port)])
    assert list(found) == [f"127.0.0.1:{unused_tcp_port}"]


def test_brokers_that_lack_a_change_of_users_are_named() -> None:
    facts = Facts(host="127.0.0.1", port=8081)
    assert unequal(facts) == []
    (note,) = unequal(replace(facts, lacking_users=["broker-b"]))
    assert "broker-b lacks the last change" in note
