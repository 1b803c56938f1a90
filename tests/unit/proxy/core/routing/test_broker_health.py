"""A broker that says nothing is asked, then passed over, then given up; one word is enough."""

from popmq_proxy.core.routing.broker_health import (
    LOST_AFTER_S,
    PING_AFTER_S,
    SILENT_AFTER_S,
    TICK_S,
    BrokerHealth,
    Look,
)


def looks(pulse: BrokerHealth, from_s: float, to_s: float) -> list[Look]:
    ticks = round((to_s - from_s) / TICK_S)
    return [pulse.look(from_s + TICK_S * (i + 1)) for i in range(ticks)]


def in_order(found: list[Look]) -> list[Look]:
    """Without repetitions."""
    return [look for i, look in enumerate(found) if i == 0 or found[i - 1] is not look]


def test_a_busy_connection_is_never_asked() -> None:
    pulse = BrokerHealth(0.0, 0.0)
    for i in range(100):
        now_s = i * TICK_S
        pulse.heard(now_s)
        assert pulse.look(now_s) is Look.QUIET


def test_silence_goes_through_all_steps_and_each_ping_leaves_once() -> None:
    pulse = BrokerHealth(0.0, 0.0)
    found = looks(pulse, 0.0, PING_AFTER_S + LOST_AFTER_S)
    assert in_order(found) == [Look.QUIET, Look.ASK, Look.ASKED, Look.SILENT, Look.LOST]
    assert found.count(Look.ASK) == 1


def test_one_word_makes_it_well_again() -> None:
    pulse = BrokerHealth(0.0, 0.0)
    assert looks(pulse, 0.0, PING_AFTER_S + SILENT_AFTER_S)[-1] is Look.SILENT
    assert pulse.silent
    pulse.heard(3.0)
    assert not pulse.silent
    assert pulse.look(3.0 + TICK_S) is Look.QUIET


def test_a_proxy_that_was_paused_itself_does_not_blame_its_brokers() -> None:
    pulse = BrokerHealth(0.0, 0.0)
    assert looks(pulse, 0.0, PING_AFTER_S)[-1] is Look.ASK
    assert pulse.look(100.0) is Look.ASKED
    assert not pulse.silent
    assert pulse.look(100.0 + TICK_S) is Look.SILENT
    assert Look.LOST not in looks(pulse, 100.5, 100.5 + LOST_AFTER_S - 2 * SILENT_AFTER_S)
