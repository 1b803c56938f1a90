"""py-spy: samples the stacks of running processes from outside."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from compare.failure import BenchFailure

SLACK_S = 60.0
SAMPLES_PER_S = 200
INSTALL = ".venv/bin/pip install --group bench"
PERMIT = "run as root, or: sudo sysctl kernel.yama.ptrace_scope=0"
PERMIT_CONTAINER = "in a container: docker run --cap-add SYS_PTRACE"
FORMATS = {"raw": "folded", "flamegraph": "svg"}
"""Format of py-spy → ending of the file."""


def find(popmq: Path) -> Path:
    """py-spy beside `popmq`, else on the path; raises a failure that says how to get it."""
    beside = popmq.parent / "py-spy"
    if beside.is_file():
        return beside
    elsewhere = shutil.which("py-spy")
    if elsewhere is None:
        raise BenchFailure(f"py-spy is missing: {INSTALL}")
    return Path(elsewhere)


def command(
    py_spy: Path, pid: int, kind: str, file: Path, seconds: int, options: Sequence[str]
) -> list[str]:
    """A recording of one process, with more options of `py-spy record`."""
    words = [str(py_spy), "record", "--pid", str(pid), "--format", kind, "--output", str(file)]
    words += ["--duration", str(seconds), "--rate", str(SAMPLES_PER_S), "--function"]
    return [*words, *options]


def record(commands: Mapping[str, list[str]], seconds: int) -> None:
    """All at a time; `commands` by the process's name."""
    running = {
        name: subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for name, words in commands.items()
    }
    try:
        for name, process in running.items():
            output, _ = process.communicate(timeout=seconds + SLACK_S)
            if process.returncode:
                raise BenchFailure(explained(name, output.decode(errors="replace")))
    except subprocess.TimeoutExpired as late:
        raise BenchFailure(f"py-spy did not end in {seconds + SLACK_S:.0f} s") from late
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def explained(name: str, output: str) -> str:
    """What py-spy said, with what helps when it may not look into the process."""
    told = " ".join(output.split()) or "no reason given"
    text = f"py-spy cannot look into the {name}: {told[-500:]}"
    if "ermission" in output or "not permitted" in output:
        text += f"\n{PERMIT}\n{PERMIT_CONTAINER}"
    return text
