"""The example for Airflow names commands and options that there are, in the right order."""

import re
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from popmq_pipelines.__main__ import parser

EXAMPLE = Path(__file__).parents[3] / "examples/airflow_dag.py"


class Task:
    """As Airflow's: `a >> b` says that b follows."""

    made: ClassVar["list[Task]"] = []

    def __init__(self, **told: Any) -> None:
        self.told, self.followers = told, list[Task]()
        Task.made.append(self)

    def __rshift__(self, other: "Task") -> "Task":
        self.followers.append(other)
        return other


class Dag:
    def __init__(self, **told: Any) -> None:
        self.told = told

    def __enter__(self) -> "Dag":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_its_commands_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stubs = {
        name: ModuleType(name)
        for name in ("airflow", "airflow.operators", "airflow.operators.bash")
    }
    stubs["airflow"].DAG = Dag  # type: ignore[attr-defined]
    stubs["airflow.operators.bash"].BashOperator = Task  # type: ignore[attr-defined]
    for name, stub in stubs.items():
        monkeypatch.setitem(sys.modules, name, stub)
    monkeypatch.setattr(Task, "made", [])
    found = runpy.run_path(str(EXAMPLE))
    assert found["dag"].told["max_active_runs"] == 1
    assert found["dag"].told["catchup"] is False
    commands = []
    for task in Task.made:
        program, *words = shlex.split(re.sub(r"{{.*?}}", "id", task.told["bash_command"]))
        assert program == "popmq-pipelines"
        commands.append(parser().parse_args(words).command)
    assert commands == ["export", "backfill", "compact"]
    assert [len(task.followers) for task in Task.made] == [1, 1, 0]
