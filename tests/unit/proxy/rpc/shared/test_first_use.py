"""What is made on first use must not change what is there and is only not seen just now."""

from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2


def test_a_topic_whose_broker_is_just_starting_keeps_its_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers calls before the nameservers know its topics again."""
    driver = EngineDriver(tmp_path)
    driver.make(queues=2)
    before = driver.broker.state.catalog_state.topics[TOPIC]
    with monkeypatch.context() as starting:
        starting.setattr(ProxyDriver, "_lookup", lambda *_: [])
        proxy = ProxyDriver(driver)
        proxy.send(b"too early")
    assert driver.broker.state.catalog_state.topics[TOPIC] == before
    assert ProxyDriver(driver).send(b"now").code == v2.OK
    driver.close()
