"""Who is logged in. The table is in memory and bounded; a user's secret never leaves it."""

from dataclasses import dataclass, field
from typing import Final

from popmq._core.signature import SignedHeaders

SESSIONS_MAX: Final = 1_000
SESSIONS_OF_USER_MAX: Final = 20


@dataclass(slots=True)
class VisitorSession:
    user: str
    secret: str = field(repr=False)
    """Stays here: browsers have the visitor id alone."""
    began_ms: int
    used_ms: int
    signed: SignedHeaders = field(init=False, repr=False)
    """Of each call."""

    def __post_init__(self) -> None:
        self.signed = SignedHeaders(self.user, self.secret)


class SessionTable:
    """By visitor id."""

    def __init__(self, session_ms: int, idle_ms: int) -> None:
        self._session_ms, self._idle_ms = session_ms, idle_ms
        self._sessions: dict[str, VisitorSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, visitor_id: str, session: VisitorSession) -> None:
        """Where there are too many, of this user or of all, the one that is unused the longest
        ends."""
        own = [one for one, kept in self._sessions.items() if kept.user == session.user]
        if len(own) >= SESSIONS_OF_USER_MAX:
            self._drop_unused(own)
        if len(self._sessions) >= SESSIONS_MAX:
            self._drop_expired(session.began_ms)
        if len(self._sessions) >= SESSIONS_MAX:
            self._drop_unused(list(self._sessions))
        self._sessions[visitor_id] = session

    def find(self, visitor_id: str, now_ms: int) -> VisitorSession | None:
        """None: it has ended, or there was none."""
        session = self._sessions.get(visitor_id)
        if session is None:
            return None
        if self._is_over(session, now_ms):
            del self._sessions[visitor_id]
            return None
        session.used_ms = now_ms
        return session

    def end(self, visitor_id: str) -> None:
        self._sessions.pop(visitor_id, None)

    def _is_over(self, session: VisitorSession, now_ms: int) -> bool:
        unused_ms, age_ms = now_ms - session.used_ms, now_ms - session.began_ms
        return unused_ms >= self._idle_ms or age_ms >= self._session_ms

    def _drop_expired(self, now_ms: int) -> None:
        for one in [one for one, kept in self._sessions.items() if self._is_over(kept, now_ms)]:
            del self._sessions[one]

    def _drop_unused(self, among: list[str]) -> None:
        del self._sessions[min(among, key=lambda one: self._sessions[one].used_ms)]
