"""What a shard has of its own, and which there cannot be."""

from pathlib import Path

import pytest

from popmq_broker.config import BrokerConfig
from popmq_broker.shards.layout import plan
from popmq_broker.shards.supervisor import check, shard_config
from popmq_common.process.config import ConfigError

DIR = Path("data")
ALL = BrokerConfig(
    data_dir=DIR,
    name="b",
    port=10_911,
    advertise="node-1:20911",
    shards=3,
    metrics_port=9_100,
    health_port=9_101,
)
SHARDS = plan(DIR, "b", 3, [4])


def test_each_has_a_name_a_directory_and_a_port_of_its_own() -> None:
    own = [shard_config(ALL, shard) for shard in SHARDS]
    assert [(one.name, one.data_dir, one.port, one.advertise) for one in own] == [
        ("b", DIR, 10_911, "node-1:20911"),
        ("b-1", DIR / "shards" / "1", 10_912, "node-1:20912"),
        ("b-2", DIR / "shards" / "2", 10_913, "node-1:20913"),
        ("b-4", DIR / "shards" / "4", 10_915, "node-1:20915"),
    ]
    assert [one.drains for one in own] == [False, False, False, True]
    assert {(one.metrics_port, one.health_port) for one in own} == {(0, 0)}


def test_any_free_port_is_one_for_each() -> None:
    own = shard_config(BrokerConfig(data_dir=DIR, port=0, shards=2), SHARDS[1])
    assert (own.port, own.advertise) == (0, "")


def test_a_port_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match=r"shard 1 has no port: 65535 \+ 1: a port is a number"):
        shard_config(BrokerConfig(data_dir=DIR, port=65_535, shards=2), SHARDS[1])


@pytest.mark.parametrize("shards", [0, -1, 65])
def test_a_number_of_shards_that_makes_no_sense_is_refused(shards: int) -> None:
    config = BrokerConfig(data_dir=DIR, shards=shards)
    with pytest.raises(ConfigError, match="POPMQ_BROKER_SHARDS must be a number from 1 to 64"):
        check(config)


def test_a_replica_has_none_and_is_told_which_directories_there_are() -> None:
    config = BrokerConfig(data_dir=DIR, replica="r1", shards=2)
    with pytest.raises(ConfigError, match=r"a replica has no shards.*data, data/shards/1"):
        check(config)


def test_a_replica_without_a_register_is_refused_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="POPMQ_BROKER_REGISTER"):
        check(BrokerConfig(data_dir=DIR, replica="r1"))
