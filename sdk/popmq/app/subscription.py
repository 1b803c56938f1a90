"""What a handler of an app is given, and how."""

from collections.abc import Sequence
from dataclasses import dataclass

from popmq._core.backoff import attempt_delay_s
from popmq.app.handler_layers import Handler, Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """See `App.handler`."""

    topic: str
    group: str
    handler: Handler
    name: str = "handler"
    """Of the function, for people."""
    layers: tuple[Layer, ...] = ()
    """Around the handler, outermost first."""
    filter: str = "*"
    sql: str = ""
    concurrency: int = 1
    prefetch: int = 0
    lease_s: float = 30.0
    lease_longest_s: float = 3_600.0
    retry: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.prefetch < 0:
            raise ValueError("concurrency is at least 1, prefetch at least 0")
        if not 0 < self.lease_s <= self.lease_longest_s:
            raise ValueError("lease_s is above 0, and lease_longest_s not below it")
        if self.sql and self.filter != "*":
            raise ValueError("messages are chosen by filter or sql, not both")
        if self.retry is not None and not _are_delays(self.retry):
            raise ValueError("retry is a list of delays in seconds, at least one")

    def delay_s(self, attempt: int) -> float | None:
        """After a failure of the delivery `attempt`. None: the server knows the group's policy."""
        return None if self.retry is None else attempt_delay_s(tuple(self.retry), attempt)


def _are_delays(retry: object) -> bool:
    if not isinstance(retry, Sequence) or isinstance(retry, str | bytes):
        return False
    return bool(retry) and all(isinstance(one, int | float) and one >= 0 for one in retry)
