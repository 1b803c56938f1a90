"""Does a message whose ack was answered OK stay away, for ever and at every proxy?"""

import random
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.broker import EngineDriver
from harness.proxy import GROUP, TOPIC, ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_internal.v1 import link_pb2 as link

INVISIBLE_MS = 10_000
DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("revives", [True, False], ids=["revival is quick", "revival is late"])
@pytest.mark.parametrize("after", ["", "restart", "crash"])
def test_t12_an_ack_counts_at_every_point_of_the_invisible_time(
    driver: EngineDriver, revives: bool, after: str
) -> None:
    """In time it is done and the message never is redelivered; too late, that is what it is
    told."""
    driver.make(queues=1)
    moments = [*range(0, INVISIBLE_MS, 499), INVISIBLE_MS - 1, INVISIBLE_MS, INVISIBLE_MS + 1]
    for at_ms in moments:
        driver.send(str(at_ms))
    held = {int(message.body): message for message in driver.pop(32, INVISIBLE_MS)}
    assert sorted(held) == sorted(moments)
    began_ms = driver.clock.now_ms()
    for at_ms in sorted(moments):
        step_ms = began_ms + at_ms - driver.clock.now_ms()
        if revives:
            driver.advance(step_ms)
        else:
            driver.clock.advance(step_ms)
        in_time = at_ms < INVISIBLE_MS
        expected = link.LEASE_OUTCOME_DONE if in_time else link.LEASE_OUTCOME_EXPIRED
        assert driver.ack(held[at_ms].handle) == [expected]
    if after == "restart":
        driver.restart()
    elif after == "crash":
        driver.crash(random.Random(1))
    driver.advance(DAY_MS)
    assert {int(message.body) for message in driver.pop()} == {INVISIBLE_MS, INVISIBLE_MS + 1}


@pytest.mark.parametrize("seed", range(6))
def test_t16_an_ack_answered_ok_is_final_at_every_proxy(tmp_path: Path, seed: int) -> None:
    """Received at one proxy, changed at another, acked at a third; one of them has just started."""
    rng = random.Random(seed)
    engines = [EngineDriver(tmp_path / "a", name="broker-a")]
    engines.append(EngineDriver(tmp_path / "b", like=engines[0], name="broker-b"))
    for engine in engines:
        engine.make(max_attempts=1_000)
    proxies = [ProxyDriver(*engines) for _ in range(3)]
    for number in range(60):
        assert rng.choice(proxies).send(str(number).encode()).code == v2.OK
    acked: set[bytes] = set()
    held: list[v2.Message] = []
    for step in range(400):
        if step % 20 == 0:
            proxies[rng.randrange(3)] = ProxyDriver(*engines)
        for message in rng.choice(proxies).receive(5, batch_size=rng.randint(1, 8)):
            assert message.body not in acked
            held.append(message)
        rng.shuffle(held)
        if held and rng.random() < 0.3:
            _change(rng.choice(proxies), held[-1])
        if held:
            message = held.pop()
            (status,) = rng.choice(proxies).ack(message)
            if status.code == v2.OK:
                acked.add(message.body)
        engines[0].clock.advance(rng.randrange(700))
        for engine in engines:
            engine.advance(0)
    for engine in engines:
        engine.advance(DAY_MS)
    left = {message.body for _ in range(40) for message in rng.choice(proxies).receive()}
    assert acked
    assert not left & acked
    assert len(left | acked) == 60
    for engine in engines[1:]:
        engine.close()
    engines[0].close()


def _change(proxy: ProxyDriver, message: v2.Message) -> None:
    request = service.ChangeInvisibleDurationRequest(
        group=GROUP,
        topic=TOPIC,
        receipt_handle=message.system_properties.receipt_handle,
        invisible_duration=Duration(seconds=3),
    )
    changed = proxy.call("ChangeInvisibleDuration", request)
    message.system_properties.receipt_handle = changed.receipt_handle
