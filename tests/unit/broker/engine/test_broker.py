"""flush=async is weaker, and says so."""

from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.chance import KeepsNothing
from prometheus_client import generate_latest

from popmq_broker.config import Flush, PopBuffer
from popmq_broker.metrics import registry


@pytest.mark.parametrize(("flush", "shown"), [(Flush.SYNC, "1.0"), (Flush.ASYNC, "0.0")])
def test_both_modes_serve_and_the_metrics_tell_which(
    tmp_path: Path, flush: Flush, shown: str
) -> None:
    driver = EngineDriver(tmp_path, flush=flush)
    driver.make()
    driver.send("a")
    (message,) = driver.pop()
    driver.ack(message.handle)
    page = generate_latest(registry(driver.broker)).decode()
    assert f"popmq_flush_sync {shown}" in page
    assert 'popmq_messages_in_total{topic="t"} 1.0' in page
    assert 'popmq_acks_total{consumer_group="g",outcome="done",topic="t"} 1.0' in page
    assert 'popmq_consumer_lag_messages{consumer_group="g",topic="t"} 0.0' in page
    driver.restart()
    assert driver.pop() == []
    driver.close()


@pytest.mark.parametrize("mode", list(PopBuffer))
def test_what_is_sent_after_a_lossy_crash_is_delivered(tmp_path: Path, mode: PopBuffer) -> None:
    """flush=async: the log has lost messages whose offsets the file of the offsets has passed."""
    driver = EngineDriver(tmp_path, flush=Flush.ASYNC, pop_buffer=mode)
    driver.make(queues=1)
    for body in "abc":
        driver.send(body)
    driver.ack(*(message.handle for message in driver.pop()))
    driver.run(driver.broker.offsets.write())
    driver.crash(KeepsNothing())
    driver.send("new")
    assert [message.body for message in driver.pop()] == [b"new"]
    driver.close()


def test_lag_counts_what_is_ready_and_what_is_held(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    driver.make()
    for body in "abc":
        driver.send(body)
    driver.pop(2)
    page = generate_latest(registry(driver.broker)).decode()
    labels = '{consumer_group="g",topic="t"}'
    assert f"popmq_consumer_ready_messages{labels} 1.0" in page
    assert f"popmq_consumer_inflight_messages{labels} 2.0" in page
    assert f"popmq_consumer_lag_messages{labels} 3.0" in page
    driver.close()


def test_a_pop_of_large_messages_stops_before_its_reply_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popmq_broker.engine.leases.pop.REPLY_BYTES_MAX", 1_000)
    driver = EngineDriver(tmp_path)
    driver.make(queues=2)
    bodies = [str(number) * 400 for number in range(8)]
    for body in bodies:
        driver.send(body)
    got = []
    while messages := driver.pop(32):
        assert len(messages) <= 3
        got += [message.body.decode() for message in messages]
    assert sorted(got) == bodies
    driver.close()
