"""Folded stacks as a table, the words for py-spy, and what it says when it may not."""

from pathlib import Path

import pytest

from compare.failure import BenchFailure
from profiling import spy, stacks
from profiling.command import python_pids

FOLDED = ["main (a.py:1);work (b.py:2) 6", "main (a.py:1);work (b.py:2);work (b.py:2) 2", ""]


def test_own_and_total_shares_and_recursion_counts_once() -> None:
    found = stacks.shares([*FOLDED, "main (a.py:1) 2", "no count"])
    assert [(share.function, share.own, share.total) for share in found] == [
        ("work (b.py:2)", 0.8, 0.8),
        ("main (a.py:1)", 0.2, 1.0),
    ]


def test_samples_are_summed() -> None:
    assert stacks.samples(FOLDED) == 8
    assert stacks.samples([]) == 0
    assert stacks.shares([]) == []


def test_the_table_sums_up_what_functions_have_of_their_own() -> None:
    assert stacks.top(stacks.shares([*FOLDED, "main (a.py:1) 2"]), 2).splitlines()[2:] == [
        "| `work (b.py:2)` | 80.0 % | 80.0 % | 80.0 % |",
        "| `main (a.py:1)` | 20.0 % | 100.0 % | 100.0 % |",
    ]


def test_broker_and_proxy_are_sampled() -> None:
    apart = {"nameserver": [1], "broker": [2], "proxy": [3]}
    assert python_pids(apart) == {"broker": 2, "proxy": 3}


def test_py_spy_beside_the_server_is_taken_and_its_lack_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(BenchFailure, match="pip install --group bench"):
        spy.find(tmp_path / "popmq")
    (tmp_path / "py-spy").touch()
    assert spy.find(tmp_path / "popmq") == tmp_path / "py-spy"


def test_a_refusal_names_what_helps() -> None:
    told = spy.explained("broker", "Permission Denied: Try running again")
    assert "sysctl kernel.yama.ptrace_scope=0" in told
    assert "sysctl" not in spy.explained("broker", "No such process")


def test_a_failing_recorder_is_told_by_name() -> None:
    with pytest.raises(BenchFailure, match="look into the proxy: no reason given"):
        spy.record({"proxy": ["false"]}, seconds=1)
