"""Curves of a standalone by cores: what loadgen's report means, the table, the bound."""

from pathlib import Path
from typing import Any

import pytest

from compare.failure import BenchFailure
from compare.page import put
from scaling.quota import files, held_to
from scaling.report import svg, table
from scaling.run import LOADS, Point, point_of


def report(**changed: Any) -> dict[str, Any]:
    cpu = {"worker-0": 100.0, "worker-1": 50.0, "supervisor": 2.0, "loadgen": 30.0}
    return {
        "missing": 0,
        "errors": None,
        "cpu": {name: {"cpu_us_per_message": us} for name, us in cpu.items()},
        "messages_per_s": 1_000.0,
        "send": {"p99_ms": 7.0},
        "other_cpu_percent": 1.0,
        **changed,
    }


def test_the_load_generator_is_not_the_server() -> None:
    assert point_of(2, LOADS["send"], report()) == Point(2, 1_000.0, 152.0, 2.0, 7.0, 1.0)


@pytest.mark.parametrize("wrong", [{"missing": 3}, {"errors": {"50001": {"count": 1}}}])
def test_a_run_that_lost_something_is_no_figure(wrong: dict[str, Any]) -> None:
    with pytest.raises(BenchFailure, match="2 cores: "):
        point_of(2, LOADS["send"], report(**wrong))


CURVES = {"send": [Point(1, 500, 200, 0, 60, 1), Point(2, 1_300, 150, 4, 50, 1)]}


def test_each_point_is_told_beside_the_first() -> None:
    lines = table(CURVES).splitlines()
    assert lines[2].startswith("| send | 1 | 500 | 1.00 | 200 | 1.00 |")
    assert lines[3].startswith("| send | 2 | 1,300 | 2.60 | 150 | 0.75 |")


def test_the_same_curves_make_the_same_picture() -> None:
    assert svg(CURVES) == svg(CURVES)
    assert "measured" in svg(CURVES)


def test_the_table_takes_the_place_of_the_one_before() -> None:
    page = "a\n<!-- table: begin -->\nold\n<!-- table: end -->\nb\n"
    new = "a\n<!-- table: begin -->\n\nnew\n\n<!-- table: end -->\nb\n"
    assert put(page, "table", "new") == new


def test_each_version_of_control_groups_has_its_files(tmp_path: Path) -> None:
    with pytest.raises(BenchFailure, match="as root on Linux"):
        files(tmp_path, "x", 0.1)
    (tmp_path / "cpu").mkdir()
    assert files(tmp_path, "x", 0.1) == (
        tmp_path / "cpu" / "x",
        {"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "2000"},
    )
    (tmp_path / "cgroup.controllers").write_text("cpu")
    assert files(tmp_path, "x", 0.5) == (tmp_path / "x", {"cpu.max": "10000 20000"})


def test_each_process_has_a_group_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    with held_to(0.1, [11, 12], tmp_path):
        groups = sorted((tmp_path / "cpu").iterdir())
        assert [(one / "cgroup.procs").read_text() for one in groups] == ["11", "12"]
    assert (tmp_path / "cpu" / "cgroup.procs").read_text() == "12"
