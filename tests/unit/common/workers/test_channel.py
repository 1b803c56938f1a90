"""Connections and words between the supervisor and a worker."""

import asyncio
import socket

import pytest

from popmq_common.workers.channel import Channel, HandedOver, hand_over


def connection() -> tuple[socket.socket, socket.socket]:
    """(client's end, server's end)"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        return client, accepted


async def test_a_connection_arrives_with_its_address() -> None:
    ours, theirs = socket.socketpair()
    client, accepted = connection()
    with ours, theirs, client:
        handed = HandedOver(theirs)
        waiting = asyncio.create_task(handed.next())
        await asyncio.sleep(0)
        with accepted:
            hand_over(ours, accepted)
        taken, peer = await waiting
        with taken:
            assert peer == client.getsockname()
            client.sendall(b"hello")
            assert taken.recv(5) == b"hello"
        assert handed.taken == 1


async def test_each_is_handed_over_once_and_in_order() -> None:
    ours, theirs = socket.socketpair()
    pairs = [connection() for _ in range(20)]
    with ours, theirs:
        for _, accepted in pairs:
            with accepted:
                hand_over(ours, accepted)
        handed = HandedOver(theirs)
        for client, _ in pairs:
            taken, peer = await handed.next()
            with taken, client:
                assert peer == client.getsockname()


async def test_a_process_without_room_for_one_more_tells_and_goes_on() -> None:
    """The kernel drops a descriptor that the receiver may not open, and delivers the byte alone."""
    ours, theirs = socket.socketpair()
    client, accepted = connection()
    with ours, theirs, client:
        handed = HandedOver(theirs)
        ours.send(b"c")
        with pytest.raises(OSError, match="Too many open files"):
            await handed.next()
        with accepted:
            hand_over(ours, accepted)
        taken, _ = await handed.next()
        taken.close()
        assert handed.taken == 2


async def test_when_the_supervisor_is_gone_none_comes() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        waiting = asyncio.create_task(HandedOver(theirs).next())
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        waiting.cancel()


async def test_words_arrive_whole_and_their_end_is_told() -> None:
    ends = socket.socketpair()
    ours, theirs = await Channel.over(ends[0]), await Channel.over(ends[1])
    long = "x" * 1_000_000
    ours.say(figures=long)
    ours.say(ready=True)
    assert await theirs.next() == {"figures": long}
    assert await theirs.next() == {"ready": True}
    ours.close()
    assert await theirs.next() is None
    theirs.say(ready=True)
    theirs.close()
