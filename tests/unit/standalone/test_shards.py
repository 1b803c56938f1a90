"""Which shards there are, and the page of all their metrics."""

from pathlib import Path

import pytest

from popmq_standalone.cores.figures import one_page
from popmq_standalone.cores.shards import Shard, auto_cores, found_shards, plan
from popmq_standalone.cores.supervisor import audit_log

DIR = Path("data")


@pytest.mark.parametrize(
    ("cpus", "cores"), [(1, 1), (2, 1), (3, 1), (4, 2), (15, 7), (16, 8), (128, 8)]
)
def test_one_per_two_cores_and_not_too_many(cpus: int, cores: int) -> None:
    assert auto_cores(cpus) == cores


def test_one_core_is_what_it_was_before_there_were_more() -> None:
    assert plan(DIR, "broker-a", 1, []) == [Shard(0, "broker-a", DIR, drains=False)]


def test_each_further_one_has_a_name_and_a_directory_of_its_own() -> None:
    assert plan(DIR, "b", 3, []) == [
        Shard(0, "b", DIR, drains=False),
        Shard(1, "b-1", DIR / "shards" / "1", drains=False),
        Shard(2, "b-2", DIR / "shards" / "2", drains=False),
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


def test_each_has_an_audit_trail_of_its_own() -> None:
    assert [audit_log("/var/log/audit.log", number) for number in range(2)] == [
        "/var/log/audit.log",
        "/var/log/audit-1.log",
    ]
    assert [audit_log(path, 1) for path in ("", "-")] == ["", "-"]


def test_rows_of_all_shards_are_on_one_page() -> None:
    page = (
        '# HELP popmq_x_total Those x.\n# TYPE popmq_x_total counter\npopmq_x_total{a="\\n"} %d\n'
    )
    histogram = (
        "# HELP popmq_y y\n# TYPE popmq_y histogram\n"
        'popmq_y_bucket{le="1.0"} 1.0\npopmq_y_bucket{le="+Inf"} 2.0\n'
        "popmq_y_count 2.0\npopmq_y_sum 3.0\n"
    )
    assert one_page({1: page % 2, 0: page % 1 + histogram}).decode() == (
        "# HELP popmq_x_total Those x.\n# TYPE popmq_x_total counter\n"
        'popmq_x_total{a="\\n",shard="0"} 1.0\npopmq_x_total{a="\\n",shard="1"} 2.0\n'
        "# HELP popmq_y y\n# TYPE popmq_y histogram\n"
        'popmq_y_bucket{le="1.0",shard="0"} 1.0\npopmq_y_bucket{le="+Inf",shard="0"} 2.0\n'
        'popmq_y_count{shard="0"} 2.0\npopmq_y_sum{shard="0"} 3.0\n'
    )
