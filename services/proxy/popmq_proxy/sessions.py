"""Clients as this proxy knows them: settings, last heartbeat, open polls, streams.

Nothing hinges on it: a client that is unknown here, after a restart say, is served with defaults.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_proxy.core.messages.convert import duration_ms

Answers = asyncio.Queue[service.TelemetryCommand | None]
"""What a Telemetry stream still has to send; None ends it."""


@dataclass(slots=True)
class Session:
    client_id: str
    seen_ms: int
    settings: v2.Settings | None = None
    polls: "dict[asyncio.Task[Any], str]" = field(default_factory=dict)
    """Open long polls → the attempt id of their receive; empty: it has none."""
    stream: "Answers | None" = None
    peer: str = ""
    """From where the stream comes, as `CallContext.peer` says it."""
    renews: bool = False
    """Brokers renew leases of it: it must be told of."""


class Sessions:
    def __init__(self, count_max: int, expiry_ms: int) -> None:
        self._count_max = count_max
        self._expiry_ms = expiry_ms
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def seen(self, client_id: str, now_ms: int) -> Session:
        """The client's session, made if it has none; the silent ones are forgotten."""
        session = self._sessions.get(client_id)
        if session is None:
            session = self._sessions[client_id] = Session(client_id, now_ms)
        session.seen_ms = now_ms
        self._sessions.move_to_end(client_id)
        self._forget_oldest(now_ms)
        return session

    def get(self, client_id: str) -> Session | None:
        return self._sessions.get(client_id)

    def terminate(self, client_id: str) -> None:
        """The client says goodbye: its open polls end with nothing."""
        session = self._sessions.pop(client_id, None)
        if session is not None:
            for poll in session.polls:
                poll.cancel()

    def end_polls(self, client_id: str, attempt_ids: Container[str]) -> None:
        """These open polls of the client end with nothing."""
        session = self._sessions.get(client_id)
        if session is not None:
            for poll, attempt_id in session.polls.items():
                if attempt_id and attempt_id in attempt_ids:
                    poll.cancel()

    def end_all_polls(self, client_id: str) -> None:
        """All open polls of the client end with nothing."""
        session = self._sessions.get(client_id)
        if session is not None:
            for poll in session.polls:
                poll.cancel()

    def of_users(self, users: Container[str]) -> list[str]:
        """Client ids that are theirs (CallContext.client_id)."""
        return [one for one in self._sessions if (user := one.partition("/")[0]) in users and user]

    def alive(self, since_ms: int) -> list[str]:
        """Clients whose leases are renewed and who sent a heartbeat at `since_ms` or later."""
        found = []
        for client_id, session in reversed(self._sessions.items()):
            if session.seen_ms < since_ms:
                break
            if session.renews:
                found.append(client_id)
        return found

    def poll_ms(self, client_id: str) -> int | None:
        """The long polling time of the client's own settings."""
        session = self._sessions.get(client_id)
        if session is None or session.settings is None:
            return None
        subscription = session.settings.subscription
        if not subscription.HasField("long_polling_timeout"):
            return None
        return max(0, duration_ms(subscription.long_polling_timeout))

    def end_streams_from(self, peer: str) -> None:
        """Their clients open them again, over another connection."""
        for session in self._sessions.values():
            if session.stream is not None and session.peer == peer:
                end_stream(session.stream)

    def end_all(self) -> None:
        """The proxy stops: open polls and streams end."""
        for client_id, session in list(self._sessions.items()):
            if session.stream is not None:
                end_stream(session.stream)
            self.terminate(client_id)

    def forget_silent(self, now_ms: int) -> None:
        """All that said nothing for the expiry time and have no open stream."""
        silent = []
        for client_id, session in self._sessions.items():
            if now_ms - session.seen_ms <= self._expiry_ms:
                break
            if session.stream is None:
                silent.append(client_id)
        for client_id in silent:
            del self._sessions[client_id]

    def _forget_oldest(self, now_ms: int) -> None:
        """The same from the front only, and what is beyond the bound."""
        while self._sessions:
            client_id, oldest = next(iter(self._sessions.items()))
            silent = now_ms - oldest.seen_ms > self._expiry_ms and oldest.stream is None
            if not silent and len(self._sessions) <= self._count_max:
                return
            del self._sessions[client_id]


def end_stream(answers: Answers) -> None:
    if answers.full():
        answers.get_nowait()
    answers.put_nowait(None)
