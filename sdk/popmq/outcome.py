"""What a handler says of a message that it did not deal with. To return is to say: done."""


class Retry(Exception):
    """It shall come again: after `delay_s`, or when the group's policy says."""

    def __init__(
        self, delay_s: float | None = None, reason: str = "", *, counted: bool = True
    ) -> None:
        """`counted`: as a failed attempt."""
        super().__init__(reason or "to be tried again")
        self.delay_s, self.reason, self.counted = delay_s, reason, counted


class Reject(Exception):
    """It shall not come again: to the dead letters."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "rejected")
        self.reason = reason
