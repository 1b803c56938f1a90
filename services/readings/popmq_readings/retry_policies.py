"""Retry policies as words: table, 1s,10s,5m, exponential:5s:2h:2."""

import math
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records.retry_delays import TABLE_MS
from popmq_readings.times import duration_ms, duration_text

FACTOR_DEFAULT: Final = 2.0


def parse_policy(text: str) -> admin.RetryPolicy:
    """Raises `ValueError`."""
    if text == "table":
        return admin.RetryPolicy(delays_ms=TABLE_MS)
    kind, _, rest = text.partition(":")
    if kind != "exponential":
        return admin.RetryPolicy(delays_ms=[duration_ms(word) for word in text.split(",")])
    words = rest.split(":")
    if len(words) not in (2, 3):
        raise ValueError(f"{text!r} is not exponential:INITIAL:MAX[:FACTOR]")
    factor = float(words[2]) if len(words) == 3 else FACTOR_DEFAULT
    if not math.isfinite(factor):
        raise ValueError(f"{words[2]} is no factor")
    return admin.RetryPolicy(
        initial_ms=duration_ms(words[0]), max_ms=duration_ms(words[1]), multiplier=factor
    )


def policy_text(policy: admin.RetryPolicy) -> str:
    """What `parse_policy` reads."""
    if policy.delays_ms:
        return ",".join(duration_text(ms) for ms in policy.delays_ms)
    first, last = duration_text(policy.initial_ms), duration_text(policy.max_ms)
    return f"exponential:{first}:{last}:{policy.multiplier:g}"
