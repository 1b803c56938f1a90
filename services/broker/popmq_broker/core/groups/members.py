"""Members: which consumers pull a topic as one group just now. Each says so again and again."""

from typing import Final

from popmq_common.errors import TooManyRequests

MEMBERS_MAX: Final = 1_024
"""Of one group and topic."""


class Members:
    def __init__(self) -> None:
        self._until_ms: dict[tuple[str, str], dict[str, int]] = {}
        """(group, topic) → client id → until when it counts."""

    def __len__(self) -> int:
        return sum(len(clients) for clients in self._until_ms.values())

    def join(
        self, group: str, topic: str, client_id: str, now_ms: int, session_ms: int
    ) -> list[str]:
        """All members in order, this one included. Raises `TooManyRequests`."""
        clients = self._until_ms.setdefault((group, topic), {})
        for silent in [name for name, until_ms in clients.items() if until_ms <= now_ms]:
            del clients[silent]
        if client_id not in clients and len(clients) >= MEMBERS_MAX:
            raise TooManyRequests(what=f"consumers of group {group}", limit=MEMBERS_MAX)
        clients[client_id] = now_ms + session_ms
        return sorted(clients)

    def leave(self, client_id: str, group: str | None = None, topic: str | None = None) -> None:
        """The client is gone, from everywhere or from a group and topic."""
        for key, clients in list(self._until_ms.items()):
            if group in (None, key[0]) and topic in (None, key[1]):
                clients.pop(client_id, None)
                if not clients:
                    del self._until_ms[key]

    def forget_silent(self, now_ms: int) -> None:
        for key, clients in list(self._until_ms.items()):
            if all(until_ms <= now_ms for until_ms in clients.values()):
                del self._until_ms[key]
