"""What a group has to get of a topic: everything that is sent once it has started."""

from popmq_broker.core.groups.starts import CLOCKS_DIFFER_MS_MAX


class Book:
    def __init__(self) -> None:
        self.tried_ms = 0
        """When a consumer first tried to start."""
        self.started_ms = 0
        """When one was first told that it has."""
        self.wanted: dict[str, tuple[str, int]] = {}
        """Sent after the start, and not received yet: to which broker, and when."""
        self.before: dict[str, int] = {}
        """Sent before the start, and when."""
        self.last: dict[str, int] = {}
        """By message group, the number of the last one that came."""

    def sent(self, body: str, broker: str, now_ms: int) -> None:
        if self.started_ms:
            self.wanted[body] = broker, now_ms
        else:
            self.before[body] = now_ms

    def tries(self, now_ms: int) -> None:
        self.tried_ms = self.tried_ms or now_ms

    def starts(self, now_ms: int) -> None:
        self.tries(now_ms)
        self.started_ms = self.started_ms or now_ms

    def came(self, body: str) -> None:
        old_ms = self.tried_ms - self.before.get(body, self.tried_ms)
        assert old_ms <= CLOCKS_DIFFER_MS_MAX, f"{body} was sent long before the start"
        self.wanted.pop(body, None)

    def oldest_at(self, brokers: set[str], now_ms: int) -> int:
        """How long ago the first of those that lie there was sent."""
        return max([0, *(now_ms - at for broker, at in self.wanted.values() if broker in brokers)])

    def came_in_order(self, body: str, message_group: str) -> None:
        number = int(body[1:])
        assert number > self.last.get(message_group, -1), f"{body} of {message_group} comes late"
        self.last[message_group] = number
