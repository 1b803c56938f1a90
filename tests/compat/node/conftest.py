"""The official Node client, as an npm package of its own."""

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


@pytest.fixture(scope="session")
def node(alone: Alone) -> str:
    """Its command, with the client beside the drivers."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.fail("node and npm are missing: install Node.js 18 or newer")
    install = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    with alone():
        subprocess.run(install, cwd=HERE, check=True, timeout=300)
    return node


@pytest.fixture(scope="session")
def driver(node: str) -> Driver:
    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        ends = [server.endpoint, server.other_endpoint]
        return run([node, str(HERE / "driver.mjs"), scenario, *ends, topic, group])

    return drive


@pytest.fixture(scope="module")
def signed(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    log = tmp_path_factory.mktemp("node") / "signed.log"
    with session([node, str(HERE / "signed.mjs")], log) as running:
        yield running
