"""Retry policies: how long a message waits, and RocketMQ's own JSON."""

import json
from typing import Any

import pytest

from popmq_broker.core.catalog import tables
from popmq_broker.core.retries.retry_policy import (
    DELAYS_MAX,
    TABLE,
    RetryPolicy,
    from_json,
    to_json,
)
from popmq_common.errors import BadRequest

DOUBLING = RetryPolicy(delays_ms=(), initial_ms=500, max_ms=3_000, multiplier=2.0)


def test_the_default_is_rocketmqs_table() -> None:
    waits_s = [TABLE.delay_ms(attempts) // 1000 for attempts in (1, 2, 3, 4, 17, 18, 19, 1_000)]
    assert waits_s == [1, 5, 10, 30, 3_600, 7_200, 7_200, 7_200]


def test_exponential_grows_up_to_its_maximum() -> None:
    waits_ms = [DOUBLING.delay_ms(attempts) for attempts in (0, 1, 2, 3, 4, 5, 10_000)]
    assert waits_ms == [500, 500, 1_000, 2_000, 3_000, 3_000, 3_000]


def test_a_list_ends_with_its_last_delay() -> None:
    assert [RetryPolicy(delays_ms=(1, 7)).delay_ms(n) for n in (1, 2, 3)] == [1, 7, 7]


@pytest.mark.parametrize("policy", [TABLE, RetryPolicy(delays_ms=(0, 90_000)), DOUBLING])
def test_a_group_keeps_its_policy_in_rocketmqs_form(policy: RetryPolicy) -> None:
    assert from_json(to_json(policy)) == policy
    group = tables.GroupConfig(name="g", retry_policy=policy)
    text = tables.encode_groups({"g": group}, 1, now_ms=1)
    assert tables.decode_groups(text, where="x") == ({"g": group}, 1)
    kept = json.loads(text)["subscriptionGroupTable"]["g"]["groupRetryPolicy"]
    if policy.delays_ms:
        assert kept["type"] == "CUSTOMIZED"
        assert kept["customizedRetryPolicy"] == {"next": list(policy.delays_ms)}
    else:
        growth = {"initial": 500, "max": 3_000, "multiplier": 2.0}
        assert kept == {"type": "EXPONENTIAL", "exponentialRetryPolicy": growth}


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        (None, TABLE),
        ({"type": "CUSTOMIZED"}, TABLE),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": None}}, TABLE),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": None},
            RetryPolicy(delays_ms=(), initial_ms=5_000, max_ms=7_200_000, multiplier=2),
        ),
    ],
)
def test_what_rocketmq_leaves_out_is_its_default(
    fields: dict[str, Any] | None, policy: RetryPolicy
) -> None:
    assert from_json(fields) == policy


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (RetryPolicy(delays_ms=(1,) * (DELAYS_MAX + 1)), "65 retry delays"),
        (RetryPolicy(delays_ms=(-1,)), "-1 ms"),
        (RetryPolicy(delays_ms=(86_400_000,)), "86400000 ms"),
        (RetryPolicy(delays_ms=(), max_ms=-5), "-5 ms"),
        (RetryPolicy(delays_ms=(), multiplier=0.5), "multiplier 0.5"),
        (RetryPolicy(delays_ms=(), multiplier=float("nan")), "multiplier nan"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(policy: RetryPolicy, text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        policy.check()
