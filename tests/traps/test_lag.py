"""Do the figures that an operator sees add up, at every moment?"""

import random
from collections import Counter
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from popmq_admin.v1 import admin_pb2 as admin
from popmq_broker.config import Flush
from popmq_broker.metrics import registry
from popmq_internal.v1 import link_pb2 as link

STEPS = 120
PARTS = ("ready", "inflight", "delayed", "blocked", "lag")


def scrape(driver: EngineDriver) -> Counter[str]:
    """Every gauge of /metrics by name, and of the group's messages by part, its topics added."""
    found: Counter[str] = Counter()
    pages: CollectorRegistry = registry(driver.broker)
    for family in text_string_to_metric_families(generate_latest(pages).decode()):
        if family.type == "gauge":
            for sample in family.samples:
                assert sample.value >= 0, sample
                name = sample.name.removeprefix("popmq_consumer_").removesuffix("_messages")
                found[name] += int(sample.value)
    return found


def stored(driver: EngineDriver, topic: str) -> int:
    for status in driver.call(describe=link.Describe()).describe.topics:
        if status.config.name == topic:
            return sum(queue.max_offset - queue.min_offset for queue in status.queues)
    return 0


@pytest.mark.parametrize("fifo", [False, True], ids=["any order", "fifo"])
@pytest.mark.parametrize("seed", range(3))
def test_t64_what_was_sent_is_acked_ready_held_blocked_or_dead_at_every_scrape(
    tmp_path: Path, seed: int, fifo: bool
) -> None:
    rng = random.Random(seed)
    driver = EngineDriver(tmp_path)
    driver.make(fifo=fifo, max_attempts=2)
    driver.pop()
    sent, acked = 0, 0
    handles: list[str] = []
    for _ in range(STEPS):
        work = rng.randrange(12)
        if work < 4:
            driver.send(f"{'abc'[sent % 3]}{sent}", message_group="abc"[sent % 3] if fifo else "")
            sent += 1
        elif work < 7:
            handles += [message.handle for message in driver.pop(rng.randint(1, 5), 3_000)]
        elif work < 9 and handles:
            chosen = [handles.pop(rng.randrange(len(handles)))]
            acked += driver.ack(*chosen).count(link.LEASE_OUTCOME_DONE)
        elif work == 9 and handles:
            driver.change(handles.pop(), rng.choice([0, 1_000]))
        elif work == 10:
            driver.advance(rng.choice([1, 1_000, 5_000]))
        elif work == 11 and rng.random() < 0.5:
            driver.restart()
        elif work == 11:
            driver.crash(rng)
        figures = scrape(driver)
        assert figures["lag"] == sum(figures[part] for part in PARTS[:-1])
        dead = stored(driver, f"%DLQ%{GROUP}")
        assert sent == acked + figures["lag"] + dead, (work, figures, acked, dead)
        group = driver.call(describe=link.Describe(group=GROUP)).describe.groups[0]
        assert sum(queue.lag for queue in group.queues) == figures["lag"]
    assert acked
    driver.close()


def test_t66_no_figure_is_ever_negative(tmp_path: Path) -> None:
    """After a crash with flush=async, when a group may be ahead of a log that was cut; after a
    topic was made again; after a group's start was moved by nothing but time."""
    driver = EngineDriver(tmp_path, flush=Flush.ASYNC)
    driver.make()
    for seed in range(5):
        for number in range(10):
            driver.send(f"{seed}-{number}")
        driver.pop(7)
        scrape(driver)
        driver.hold_disk()
        for number in range(10):
            driver.send(f"lost-{seed}-{number}")
        driver.pop(32)
        driver.crash(random.Random(seed))
        scrape(driver)
        driver.advance(10_000)
        scrape(driver)
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    assert scrape(driver)["lag"] == 0
    driver.make()
    assert scrape(driver)["lag"] == 0
    driver.send("new")
    assert scrape(driver)["lag"] == 1
    driver.close()


def test_t66_of_a_group_that_never_received_nothing_is_claimed(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    """Where it will begin is not decided yet: neither 0 nor -1 would be true."""
    proxy.send(b"x")
    figures = scrape(driver)
    assert not [name for name in figures if name in PARTS]
    found = proxy.admin("DescribeGroup", admin.DescribeGroupRequest(name=GROUP))
    assert list(found.queues) == []
    proxy.receive()
    assert scrape(driver)["lag"] == 1
