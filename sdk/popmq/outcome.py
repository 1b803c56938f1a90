"""What a handler says when it does not return: again later, or never."""


class Retry(Exception):
    """Deliver it again after `delay_s`, by default as the group's retry policy says.
    `counted`: it was a failed attempt; otherwise the next delivery has the same number."""

    def __init__(
        self, delay_s: float | None = None, reason: str = "", *, counted: bool = True
    ) -> None:
        super().__init__(reason)
        self.delay_s = delay_s
        self.reason = reason
        self.counted = counted


class Reject(Exception):
    """It can never be handled: to the dead letters, with `reason`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
