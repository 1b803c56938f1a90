"""How a handler says what becomes of a message.

return             it is acked
raise Retry(...)   it is redelivered
raise Reject(...)  it goes to the dead letters of its group at once
any other error    it is redelivered, counted, after the handler's retry delays
cancelled          it is given back at once, not counted
"""


class Retry(Exception):
    """It cannot be handled now. `delay_s` None: as the handler's `retry` or the group's policy
    says. `counted` False: the attempt does not count."""

    def __init__(
        self, delay_s: float | None = None, reason: str = "", *, counted: bool = True
    ) -> None:
        super().__init__(reason)
        self.delay_s = delay_s
        self.reason = reason
        self.counted = counted


class Reject(Exception):
    """It can never be handled."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
