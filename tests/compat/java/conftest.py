"""The official Java client, fetched once and kept, and the driver, compiled."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from compat.checks import Driver, run
from compat.session import Session, session
from harness.processes import Server

Alone = Callable[[], AbstractContextManager[None]]
HERE = Path(__file__).parent
LIB = HERE / "lib"


@pytest.fixture(scope="session")
def classes(alone: Alone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("javac") is None or shutil.which("mvn") is None:
        pytest.fail("javac or mvn is missing: apt-get install openjdk-17-jdk-headless maven")
    built = tmp_path_factory.mktemp("java")
    with alone():
        if not LIB.exists():
            collect = ["mvn", "-q", "-B", "-ntp", "dependency:copy-dependencies"]
            collect += ["-DincludeScope=runtime", f"-DoutputDirectory={LIB}"]
            subprocess.run(collect, cwd=HERE, check=True, timeout=600)
        compiler = ["javac", "-Xlint:all", "-Werror", "-encoding", "UTF-8", "-cp", f"{LIB}/*"]
        sources = [str(path) for path in HERE.glob("*.java")]
        subprocess.run([*compiler, "-d", str(built), *sources], check=True, timeout=600)
    return built


def _java(classes: Path) -> list[str]:
    # the client writes its logs into the home; nothing runs long enough to be compiled well
    options = ["-XX:TieredStopAtLevel=1", f"-Duser.home={classes}", "-cp", f"{classes}:{LIB}/*"]
    return ["java", *options]


def _driver(classes: Path, *, tls: bool) -> Driver:
    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        ends = [server.tls_endpoint] * 2 if tls else [server.endpoint, server.other_endpoint]
        command = [*_java(classes), f"-Dtls={str(tls).lower()}", "Driver"]
        return run([*command, scenario, *ends, topic, group])

    return drive


@pytest.fixture(scope="session")
def driver(classes: Path) -> Driver:
    return _driver(classes, tls=False)


@pytest.fixture(scope="session")
def driver_with_tls(classes: Path) -> Driver:
    return _driver(classes, tls=True)


@pytest.fixture(scope="module")
def signed(classes: Path) -> Iterator[Session]:
    with session([*_java(classes), "Signed"], classes / "signed.log") as running:
        yield running
