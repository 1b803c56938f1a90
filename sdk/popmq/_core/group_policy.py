"""What the server says of a group in its settings: order, attempts, delays after failures."""

from typing import NamedTuple

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.backoff import attempt_delay_s


class GroupPolicy(NamedTuple):
    fifo: bool = False
    max_attempts: int = 0
    """Deliveries before a message goes to the dead letters; 0: unknown."""
    delays_s: tuple[float, ...] = ()
    """After the first failure, the second, and so on."""
    growth: float = 0.0
    """How many times as long each further delay is, up to `longest_s`; 0: it is not."""
    longest_s: float = 0.0

    @classmethod
    def of(cls, settings: v2.Settings) -> "GroupPolicy":
        backoff = settings.backoff_policy
        steps = tuple(step.ToMilliseconds() / 1000 for step in backoff.customized_backoff.next)
        growth = longest_s = 0.0
        if backoff.HasField("exponential_backoff"):
            grows = backoff.exponential_backoff
            steps, growth = (grows.initial.ToMilliseconds() / 1000,), grows.multiplier
            longest_s = grows.max.ToMilliseconds() / 1000
        fifo = settings.subscription.fifo
        return cls(fifo, backoff.max_attempts, steps, growth, longest_s)

    def is_last(self, attempt: int) -> bool:
        return 0 < self.max_attempts <= attempt

    def delay_s(self, attempt: int) -> float | None:
        """Until the next delivery after `attempt` has failed; None: unknown."""
        if not self.delays_s:
            return None
        if self.growth:
            grown_s = self.delays_s[0] * self.growth ** (attempt - 1)
            return min(self.longest_s, grown_s)
        return attempt_delay_s(self.delays_s, attempt)


UNKNOWN = GroupPolicy()
