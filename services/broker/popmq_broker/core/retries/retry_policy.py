"""How long a failed message waits before its group gets it again.

A policy is a list of delays, of which the last one holds from then on, or grows by a factor:

    table         1s 5s 10s 30s 1m 2m … 10m 20m 30m 1h 2h     RocketMQ's, the default
    customized    next[min(attempts, n) − 1]
    exponential   min(max, initial · multiplier ^ (attempts − 1))

`attempts` counts deliveries so far, so the first failure waits for the first delay. That is what
official clients do with the policy they are told.

In subscriptionGroup.json, in ms, as RocketMQ has it; both parts may be missing or null:

    groupRetryPolicy {type "CUSTOMIZED" | "EXPONENTIAL", customizedRetryPolicy {next […]},
                      exponentialRetryPolicy {initial, max, multiplier}}

Source: RocketMQ GroupRetryPolicy, CustomizedRetryPolicy, ExponentialRetryPolicy. Differs: its
server looks the delay up two places further on (10 s first), as its 4.x delay levels begin.
"""

from dataclasses import dataclass
from typing import Any, Final

from popmq_common.errors import BadRequest
from popmq_common.records.retry_delays import TABLE_MS

DELAYS_MAX: Final = 64
"""Steps of a list."""
DELAY_MS_MAX: Final = 12 * 3_600_000
"""The longest a message may be hidden, as for an invisible time."""
MULTIPLIER_MAX: Final = 100.0
_DOUBLINGS_MAX: Final = 32  # beyond that every policy is at its maximum


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`delays_ms`, or the other three when there are none."""

    delays_ms: tuple[int, ...] = TABLE_MS
    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: float = 2.0

    def delay_ms(self, attempts: int) -> int:
        """The wait after so many deliveries, at least one."""
        number = max(attempts, 1) - 1
        if self.delays_ms:
            return self.delays_ms[min(number, len(self.delays_ms) - 1)]
        grown = self.initial_ms * self.multiplier ** min(number, _DOUBLINGS_MAX)
        return int(min(self.max_ms, grown))

    def check(self) -> None:
        """Raises `BadRequest` for a policy that a group may not have."""
        if len(self.delays_ms) > DELAYS_MAX:
            raise BadRequest(reason=f"{len(self.delays_ms)} retry delays, at most {DELAYS_MAX}")
        for delay_ms in self.delays_ms or (self.initial_ms, self.max_ms):
            if not 0 <= delay_ms <= DELAY_MS_MAX:
                raise BadRequest(reason=f"retry delay {delay_ms} ms, 0 to {DELAY_MS_MAX} allowed")
        if not self.delays_ms and not 1 <= self.multiplier <= MULTIPLIER_MAX:
            text = f"retry multiplier {self.multiplier}, 1 to {MULTIPLIER_MAX:g} allowed"
            raise BadRequest(reason=text)


TABLE: Final = RetryPolicy()


def to_json(policy: RetryPolicy) -> dict[str, Any]:
    if policy.delays_ms:
        steps = {"next": list(policy.delays_ms)}
        return {"type": "CUSTOMIZED", "customizedRetryPolicy": steps}
    growth = {
        "initial": policy.initial_ms,
        "max": policy.max_ms,
        "multiplier": policy.multiplier,
    }
    return {"type": "EXPONENTIAL", "exponentialRetryPolicy": growth}


def from_json(fields: dict[str, Any] | None) -> RetryPolicy:
    """Missing parts are RocketMQ's defaults. Raises `TypeError`, `ValueError`, `AttributeError`."""
    fields = fields or {}
    if str(fields.get("type", "CUSTOMIZED")).upper() == "EXPONENTIAL":
        growth = fields.get("exponentialRetryPolicy") or {}
        return RetryPolicy(
            delays_ms=(),
            initial_ms=int(growth.get("initial", TABLE.initial_ms)),
            max_ms=int(growth.get("max", TABLE.max_ms)),
            multiplier=float(growth.get("multiplier", TABLE.multiplier)),
        )
    steps = (fields.get("customizedRetryPolicy") or {}).get("next")
    return RetryPolicy(delays_ms=tuple(int(step) for step in steps)) if steps else TABLE
