"""When does a session end, and what if there are too many?"""

from popmq_console.guard.sessions import (
    SESSIONS_MAX,
    SESSIONS_OF_USER_MAX,
    SessionTable,
    VisitorSession,
)

SESSION_MS, IDLE_MS = 10_000, 2_000


def table() -> SessionTable:
    return SessionTable(SESSION_MS, IDLE_MS)


def session(user: str, now_ms: int) -> VisitorSession:
    return VisitorSession(user, "secret", now_ms, now_ms)


def test_a_session_ends_when_nobody_uses_it() -> None:
    sessions = table()
    sessions.begin("v", session("alice", 0))
    assert sessions.find("v", IDLE_MS - 1) is not None
    assert sessions.find("v", 2 * IDLE_MS - 2) is not None
    assert sessions.find("v", 3 * IDLE_MS - 2) is None
    assert len(sessions) == 0


def test_a_session_that_is_used_all_the_time_ends_too() -> None:
    sessions = table()
    sessions.begin("v", session("alice", 0))
    for now_ms in range(0, SESSION_MS, IDLE_MS // 2):
        assert sessions.find("v", now_ms) is not None
    assert sessions.find("v", SESSION_MS) is None


def test_who_logs_out_is_logged_out() -> None:
    sessions = table()
    sessions.begin("v", session("alice", 0))
    sessions.end("v")
    assert sessions.find("v", 1) is None
    sessions.end("v")


def test_the_table_is_bounded() -> None:
    sessions = table()
    for number in range(SESSIONS_MAX + 50):
        sessions.begin(f"v{number}", session(f"user{number}", number))
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find("v0", SESSIONS_MAX) is None
    assert sessions.find(f"v{SESSIONS_MAX + 49}", SESSIONS_MAX + 49) is not None


def test_one_user_cannot_fill_it() -> None:
    sessions = table()
    sessions.begin("other", session("bob", 0))
    for number in range(3 * SESSIONS_OF_USER_MAX):
        sessions.begin(f"v{number}", session("alice", number))
    assert len(sessions) == SESSIONS_OF_USER_MAX + 1
    assert sessions.find("other", 100) is not None


def test_a_secret_is_not_printed() -> None:
    one = VisitorSession("alice", "hunter2-hunter2", 0, 0)
    assert "hunter2" not in repr(one)
