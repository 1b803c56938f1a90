"""What the outside knows of one message, as the state machines keep it."""

from dataclasses import dataclass, field

LEASE_MS_MAX = 40_000
"""How long renewals may hold a message; small, so that leases meet it."""


@dataclass
class Told:
    """What the outside knows of one message."""

    body: str
    certain: bool = True
    """Its send was answered OK; else it may exist or not."""
    acked: bool = False
    ack_unknown: bool = False
    held_until_ms: int = 0
    """Until then nobody else gets it."""
    perhaps_until_ms: int = 0
    """Until then an ack may be done: a crash may have lost a goodbye, or kept a renewal."""
    client: str = ""
    """Whose signs of life renew the lease."""
    popped_ms: int = 0
    renew_ms: int = 0
    renewal_unknown: bool = False
    """Whether it was renewed or returned, and so when it is renewed next."""
    returned: bool = False
    """The lease may have ended by a goodbye, uncounted."""
    attempt: int = 0
    attempt_certain: bool = True
    change_unknown: bool = False
    """Its newest handle may have been replaced by one that nobody has."""
    handles: list[str] = field(default_factory=list)
    """All that were given out, the newest last."""
    nacked: bool = False
    """Waits for the end of its delay: no handle is good."""
    dead: bool = False
    """Among the dead letters, and not sent again."""

    @property
    def has_handle(self) -> bool:
        return bool(self.handles) and not self.nacked

    @property
    def stale_handles(self) -> list[str]:
        return self.handles if self.nacked else self.handles[:-1]

    def nack(self, due_ms: int, *, counted: bool) -> None:
        """Its nack was answered; it is redelivered from `due_ms` on."""
        self.change_unknown = self.renewal_unknown = self.returned = self.ack_unknown = False
        self.client = ""
        self.nacked = True
        self.held_until_ms = self.perhaps_until_ms = due_ms
        self.attempt -= not counted

    def perhaps_renewed(self, now_ms: int) -> None:
        if now_ms < self.perhaps_until_ms:
            latest_ms = min(now_ms + self.renew_ms, self.popped_ms + LEASE_MS_MAX)
            self.perhaps_until_ms = max(self.perhaps_until_ms, latest_ms)

    def renewed_until(self, now_ms: int) -> int:
        """When it is due after a sign of life, in ms."""
        if not 0 < self.held_until_ms - now_ms <= self.renew_ms // 2:
            return self.held_until_ms
        renewed_ms = min(now_ms + self.renew_ms, self.popped_ms + LEASE_MS_MAX)
        return max(renewed_ms, self.held_until_ms)
