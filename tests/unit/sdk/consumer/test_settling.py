"""How long an ack is tried while its broker is away."""

import time
from dataclasses import replace

import pytest
from unit.sdk.idempotence.made import message

from popmq.consumer.settling import PATIENCE_LONGEST_S, PATIENCE_S, _patience_s
from popmq.message import ReceivedMessage


def held(until_s: float) -> ReceivedMessage:
    return replace(message(), held_until_s=until_s)


def test_not_longer_than_the_longest_lease_among_them() -> None:
    now_s = time.monotonic()
    assert _patience_s([held(now_s + 5), held(now_s + 2)]) == pytest.approx(5, abs=1)
    assert _patience_s([held(now_s - 1)]) == 0
    assert _patience_s([held(now_s + 120)]) == pytest.approx(120, abs=1)
    assert _patience_s([held(now_s + 3_600)]) == PATIENCE_LONGEST_S


def test_an_ack_of_a_lease_of_unknown_length_is_not_tried_for_long() -> None:
    assert _patience_s([held(0.0), held(time.monotonic() + 1)]) == PATIENCE_S
