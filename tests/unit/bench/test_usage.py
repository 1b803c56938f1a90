"""CPU time, open files and memory over time, from a /proc made of files."""

import os
from pathlib import Path

import pytest

from extremes.usage import TICKS_PER_S, cores_used, cpu_s, everyone, growth, open_files, watched


def test_cpu_time_is_user_and_system_of_all_and_survives_odd_names(tmp_path: Path) -> None:
    for pid, name, user, system in ((7, "a) b (c", 100, 50), (8, "d", 30, 20)):
        (tmp_path / str(pid)).mkdir()
        numbers = ["S", "1", *["0"] * 9, str(user), str(system), *["0"] * 10]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(numbers)}\n")
    assert cpu_s([7, 8, 9], tmp_path) == pytest.approx(200 / TICKS_PER_S)


def test_open_files_are_counted_and_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "7" / "fd"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / str(number)).touch()
    assert open_files([7, 8], tmp_path) == 3


def test_the_pids_of_all_names() -> None:
    assert everyone({"broker": [1], "proxy": [2, 3]}) == [1, 2, 3]


def test_growth_compares_the_last_fifth_with_the_first() -> None:
    assert growth([]) == 1.0
    assert growth([100.0]) == 1.0
    assert growth([100.0, 100.0, 500.0, 100.0, 110.0]) == pytest.approx(1.1)
    assert growth([100.0] * 10 + [900.0] * 30 + [200.0] * 10) == pytest.approx(2.0)


def test_memory_is_watched_until_the_end() -> None:
    with watched([os.getpid()], every_s=0.01) as samples:
        assert 0.0 <= cores_used([os.getpid()], 0.05) < 64.0
    assert samples
    assert samples[0].memory.total_mib > 1.0
    assert [sample.at_s for sample in samples] == sorted(sample.at_s for sample in samples)
