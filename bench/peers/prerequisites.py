"""What must be installed, with the command that mends what is missing; and the versions."""

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compare.failure import BenchFailure
from peers.servers import Commands
from peers.systems import SYSTEMS

NATS_MODULE = "github.com/nats-io/nats-server/v2"
DISTRIBUTIONS = {
    "popmq": "popmq",
    "redis": "redis",
    "nats": "nats-py",
    "rabbitmq": "aio-pika",
}
"""End → the distribution of its client."""


def check(commands: Commands, systems: Sequence[str], plot: bool) -> None:
    """Raises a failure that names everything that is missing."""
    if lacks := missing(commands, systems, plot):
        raise BenchFailure("\n".join(lacks))


def missing(commands: Commands, systems: Sequence[str], plot: bool) -> list[str]:
    """One line for each thing that is missing."""
    wanted = [
        ("popmq", commands.popmq, "make .venv-bench/.ready"),
        ("popmq-compiled", commands.compiled, "make compiled"),
        ("redis", commands.redis, "apt-get install redis-server"),
        ("nats", commands.nats, "make .tools/nats-server (needs Go, https://go.dev/dl)"),
        ("rabbitmq", commands.rabbitmq, "apt-get install rabbitmq-server"),
    ]
    found = [
        f"{program} is missing: {mend}"
        for prefix, program, mend in wanted
        if any(_needs(name, prefix) for name in systems) and not program.is_file()
    ]
    if any(name.startswith("rabbitmq") for name in systems) and shutil.which("epmd") is None:
        found.append("epmd is missing: apt-get install erlang-base")
    if not commands.client_python.exists():
        found.append(f"{commands.client_python} is missing: make .venv-peers/.ready")
    if commands.cores and shutil.which("taskset") is None:
        found.append("taskset is missing: apt-get install util-linux")
    if plot and importlib.util.find_spec("matplotlib") is None:
        found.append("matplotlib is missing: make .venv/.bench")
    return found


def _needs(name: str, program: str) -> bool:
    return name == program or (program == "rabbitmq" and name.startswith("rabbitmq"))


def versions(commands: Commands, systems: Sequence[str]) -> dict[str, str]:
    """System → version of its server; client → version of its distribution."""
    asked = {
        "popmq": [str(commands.popmq), "--version"],
        "popmq-compiled": [str(commands.compiled), "--version"],
        "redis": [str(commands.redis), "--version"],
        "nats": [str(commands.nats), "--version"],
    }
    found = {
        name: _output(command)
        for name, command in asked.items()
        if any(_needs(system, name) for system in systems)
    }
    if any(name.startswith("rabbitmq") for name in systems):
        found["rabbitmq"] = _rabbitmq_version(commands.rabbitmq)
    script = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    for client in dict.fromkeys(SYSTEMS[name].client for name in systems):
        name = DISTRIBUTIONS[client]
        found[f"client {name}"] = _output([str(commands.client_python), "-c", script, name])
    found["python"] = _output([str(commands.client_python), "--version"])
    return found


def _rabbitmq_version(program: Path) -> str:
    """From the folder's name: Erlang's commands would start a port mapper that stays."""
    folders = sorted(program.parents[1].glob("lib/rabbitmq_server-*"))
    return folders[-1].name.rpartition("-")[2] if folders else ""


def _output(command: Sequence[str]) -> str:
    """The last line."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False
    )
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def found_in_path(name: str) -> Path:
    """Of a program that Debian installs; where it would be, if it is not there."""
    return Path(shutil.which(name) or f"/usr/bin/{name}")
