"""Runs the suite with Maven against a server, and reads its reports."""

import asyncio
import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

POM: Final = Path(__file__).with_name("pom.xml")
PROFILES: Final[Mapping[str, Sequence[str]]] = {"tls": (), "plain": ("-Pplain",)}
"""Kinds of connections, and Maven's options for them."""
RUN_S: Final = 3_600.0
OVERRIDES: Final = ("ALL_IP", "cluster")
"""Variables by which the suite would look for another server."""
_FAILED: Final = ("failure", "error", "flakyFailure", "flakyError", "rerunFailure", "rerunError")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one test."""

    passed: bool
    """In its last try."""
    said: Sequence[str] = ()
    """The first line of each try that failed."""


Outcomes = dict[str, Outcome]
"""By CLASS.TEST."""


class NotRun(Exception):
    """The suite could not be built, or broke off."""


def java_missing() -> str:
    """What to install, or nothing."""
    if shutil.which("java") is None:
        return "install Java 17 (apt-get install openjdk-17-jdk-headless)"
    if shutil.which("mvn") is None:
        return "install Maven (apt-get install maven)"
    return ""


def commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


async def run(
    checkout: Path, kind: str, endpoint: str, admin: str, target: Path, tests: str
) -> Outcomes:
    """All tests, or those that `tests` names as Maven's -Dtest does. Raises `NotRun`."""
    command = ["mvn", "-B", "-ntp", "-f", str(POM), *PROFILES[kind], "test"]
    settings = {
        "suite": checkout / "java" / "e2e",
        "target": target,
        "endPoint": endpoint,
        "namesrvAddr": admin,
    }
    command += [f"-D{name}={value}" for name, value in settings.items()]
    command += [f"-Dtest={tests}"] if tests else []
    log = target.with_suffix(".log")
    code = await asyncio.to_thread(_maven, command, log)
    found = outcomes(target / "surefire-reports")
    if code or not found:
        raise NotRun(f"the suite did not run; the end of {log}:\n{log.read_text()[-3_000:]}")
    return found


def _maven(command: Sequence[str], log: Path) -> int:
    environ = {name: value for name, value in os.environ.items() if name not in OVERRIDES}
    with open(log, "wb") as out:
        return subprocess.run(
            command, stdout=out, stderr=out, env=environ, timeout=RUN_S, check=False
        ).returncode


def outcomes(reports: Path) -> Outcomes:
    """Of each test that ran."""
    found: Outcomes = {}
    for path in sorted(reports.glob("TEST-*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            if case.find("skipped") is not None:
                continue
            name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name']}"
            passed = case.find("failure") is None and case.find("error") is None
            said = [_first_line(part) for part in case if part.tag in _FAILED]
            found[name] = Outcome(passed, said)
    return found


def _first_line(part: ElementTree.Element) -> str:
    text = part.attrib.get("message") or part.text or part.attrib.get("type", "failed")
    return next(iter(text.strip().splitlines()), "failed")
