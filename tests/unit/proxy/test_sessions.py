"""What a proxy knows of clients: who is told of, and that nothing of the silent ones stays."""

import asyncio

from popmq_proxy.sessions import Answers, Sessions


def sessions_with(*client_ids: str, count_max: int = 100) -> Sessions:
    sessions = Sessions(count_max, expiry_ms=100)
    for seen_ms, client_id in enumerate(client_ids):
        sessions.seen(client_id, seen_ms).renews = True
    return sessions


def test_only_clients_with_a_recent_sign_of_life_are_told_of() -> None:
    sessions = sessions_with("old", "a", "b")
    sessions.seen("producer", 3)
    assert sessions.alive(since_ms=1) == ["b", "a"]
    sessions.seen("old", 4)
    assert sessions.alive(since_ms=2) == ["old", "b"]
    sessions.terminate("old")
    assert sessions.alive(since_ms=2) == ["b"]


def test_t30_silent_clients_are_forgotten_also_behind_one_whose_stream_is_open() -> None:
    sessions = sessions_with("streaming", *(f"c{i}" for i in range(50)))
    session = sessions.get("streaming")
    assert session is not None
    session.stream = asyncio.Queue()
    sessions.forget_silent(120)
    assert sessions.get("streaming") is session
    assert len(sessions) == 32  # those seen at 20 and later: 100 ms of silence are allowed
    sessions.forget_silent(10_000)
    assert len(sessions) == 1
    session.stream = None
    sessions.forget_silent(10_000)
    assert len(sessions) == 0


def test_the_ones_silent_longest_make_room() -> None:
    sessions = sessions_with("a", "b", "c", count_max=2)
    assert sessions.get("a") is None
    assert len(sessions) == 2


async def test_a_client_ends_its_own_polls_by_their_attempt_ids() -> None:
    sessions = sessions_with("a", "b")
    polls: dict[tuple[str, str], asyncio.Task[None]] = {}
    for client_id in ("a", "b"):
        session = sessions.get(client_id)
        assert session is not None
        for attempt_id in ("1", "2", ""):
            poll = polls[client_id, attempt_id] = asyncio.create_task(asyncio.sleep(60))
            session.polls[poll] = attempt_id
    sessions.end_polls("a", {"1", "", "other"})
    sessions.end_polls("nobody", {"2"})
    await asyncio.sleep(0)
    assert [place for place, poll in polls.items() if poll.done()] == [("a", "1")]
    for poll in polls.values():
        poll.cancel()


def test_streams_of_a_connection_that_moves_end_and_no_others() -> None:
    sessions = sessions_with("moves", "stays", "no stream")
    streams: dict[str, Answers] = {}
    for client_id, peer in (("moves", "10.0.0.1:7"), ("stays", "10.0.0.1:8")):
        session = sessions.seen(client_id, 3)
        session.stream, session.peer = streams.setdefault(client_id, asyncio.Queue()), peer
    sessions.end_streams_from("10.0.0.1:7")
    assert streams["moves"].get_nowait() is None
    assert streams["stays"].empty()
