"""What must be installed, with the command that mends what is missing; and what machine this is."""

import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from compare.failure import BenchFailure
from compare.servers import Tools
from compare.systems import COMPILED, SYSTEMS, Case

JARS = "rocketmq-proxy-*.jar"
FREE_GIB_MIN = 20


def check(tools: Tools, cases: Iterable[Case], work: Path, plot: bool) -> None:
    """Raises a failure that names everything that is missing."""
    lacks = missing(tools, [case.system for case in cases], plot)
    work.mkdir(parents=True, exist_ok=True)
    free_gib = shutil.disk_usage(work).free / 2**30
    if free_gib < FREE_GIB_MIN:
        lacks.append(
            f"{free_gib:.0f} GiB are free under {work}, at least {FREE_GIB_MIN} are needed"
        )
    if lacks:
        raise BenchFailure("\n".join(lacks))


def missing(tools: Tools, systems: Sequence[str], plot: bool) -> list[str]:
    """One line for each thing that is missing."""
    found = []
    if not tools.popmq.is_file():
        found.append(f"{tools.popmq} is missing: make setup")
    if any(name.endswith(COMPILED) for name in systems) and not tools.compiled.is_file():
        found.append(f"{tools.compiled} is missing: make compiled")
    if not tools.loadgen.is_file():
        found.append("the load generator is not built: cd bench/loadgen && go build -o loadgen .")
        if shutil.which("go") is None:
            found.append("go is missing: install Go 1.26 or newer (https://go.dev/dl)")
    if tools.cores and shutil.which("taskset") is None:
        found.append("taskset is missing: apt-get install util-linux")
    if plot and importlib.util.find_spec("matplotlib") is None:
        found.append("matplotlib is missing: .venv/bin/pip install --group bench")
    if any(SYSTEMS[name].jvm for name in systems):
        found += _missing_for_rocketmq(tools)
    return found


def _missing_for_rocketmq(tools: Tools) -> list[str]:
    found = []
    if shutil.which("java") is None:
        found.append("java is missing: apt-get install openjdk-17-jre-headless")
    if shutil.which("unzip") is None:
        found.append("unzip is missing: apt-get install unzip")
    if not any(jars_folder(tools).glob(JARS)):
        found.append(
            "the jars of RocketMQ are missing: cd bench/anchor && mvn -q -B"
            " dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=lib"
        )
        if shutil.which("mvn") is None:
            found.append("mvn is missing: apt-get install maven")
    return found


def jars_folder(tools: Tools) -> Path:
    return Path(os.environ.get("ANCHOR_LIB", tools.anchor.parent / "lib"))


def versions(tools: Tools, jvm: bool) -> dict[str, str]:
    """Name → version of what is measured and of what it runs on."""
    found = {
        "popmq": _first_line([str(tools.popmq), "--version"]).rpartition(" ")[2],
        "python": _first_line([str(tools.popmq.parent / "python"), "--version"]),
    }
    if jvm:
        jar = next(jars_folder(tools).glob(JARS))
        found["rocketmq"] = jar.stem.removeprefix("rocketmq-proxy-")
        found["java"] = _first_line(["java", "-version"])
    return found


def _first_line(command: list[str]) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
    )
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else ""


def machine() -> dict[str, Any]:
    """Host, processor, cores, memory in GiB, kernel."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "host": platform.node().partition(".")[0],
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30),
        "kernel": platform.release(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
