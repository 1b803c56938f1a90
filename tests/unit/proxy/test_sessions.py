"""What a proxy knows of clients: who is told of, and that nothing of the silent ones stays."""

import asyncio

from popmq_proxy.sessions import Sessions


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
