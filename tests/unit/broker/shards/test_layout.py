"""Which shards there are, and where."""

from pathlib import Path

from popmq_broker.shards.layout import Shard, found_shards, plan

DIR = Path("data")


def test_one_core_is_what_it_was_before_there_were_more() -> None:
    assert plan(DIR, "broker-a", 1, []) == [Shard(0, "broker-a", directory=DIR)]


def test_each_further_one_has_a_name_and_a_directory_of_its_own() -> None:
    assert plan(DIR, "b", 3, []) == [
        Shard(0, "b", directory=DIR),
        Shard(1, "b-1", directory=DIR / "shards" / "1"),
        Shard(2, "b-2", directory=DIR / "shards" / "2"),
    ]


def test_one_that_is_too_many_only_delivers() -> None:
    assert [(one.number, one.drains) for one in plan(DIR, "b", 2, [1, 2, 5])] == [
        (0, False),
        (1, False),
        (2, True),
        (5, True),
    ]


def test_directories_that_are_no_shards_are_passed_over(tmp_path: Path) -> None:
    assert found_shards(tmp_path) == []
    for name in ("2", "10", "0", "-1", "lost+found", "1.old"):
        (tmp_path / "shards" / name).mkdir(parents=True)
    assert found_shards(tmp_path) == [2, 10]
