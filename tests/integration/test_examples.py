"""The examples do what they say, each as a process of its own before one server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.processes import Server, standalone

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PRINTS = {
    "hello": ["stored at offset 0", "hello, world attempt 1"],
    "handler": ["order 1 is paid, attempt 1", "order 2 is paid, attempt 1"],
    "delay": ["tea is ready"],
    "scripts": ["sum 5050"],
    "outbox": ["order 2: the card was refused", "placed 1 3"],
    "fifo": ["anna 0 1 2 3 4", "bert 0 1 2 3 4", "carl 0 1 2 3 4"],
    "leases": [
        "parcel 7 again, attempt 2",
        "the first one is told that it came too late",
        "done",
    ],
    "observed": [
        "POST /invoices",
        "   send invoices",
        "      process invoices popmq.outcome.Retry",
        "         nack invoices",
        "      process invoices",
        "         ack invoices",
    ],
    "once": ["came 3 times, 2 suppressed, anna has 30 points"],
    "replay": [
        "first entry 0 entry 1 entry 2",
        "goes on entry 3",
        "since noon entry 3",
        "from the start entry 0 entry 1 entry 2 entry 3",
    ],
    "tasks": [
        "order-1 is billed, attempt 1",
        "order-2 is billed, attempt 2",
        "order-3 is billed, attempt 1",
        "a price below 0",
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"POPMQ_BROKER_TRANSACTION_IMMUNITY_MS": "1000"}
    with standalone(tmp_path_factory.mktemp("examples"), env) as running:
        yield running


def test_every_example_is_run() -> None:
    """Those for Airflow and for web frameworks have tests of their own."""
    there = {path.stem for path in EXAMPLES.glob("*.py")} - {"airflow_dag"}
    assert there - {"fastapi_app"} == set(PRINTS)


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_example(name: str, server: Server) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), server.endpoint],
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert sorted(done.stdout.decode().splitlines()) == sorted(PRINTS[name])
