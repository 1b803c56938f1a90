"""The same snapshot on a Spark cluster (a master and two workers) and on this machine alone: the
same bytes; and by spark-submit as well as by --master."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from harness.audit_histories import FAULTS, World

from popmq_pipelines import __main__ as program
from popmq_pipelines.jobs.reconcile import GRACE_MS

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(1_800)]

SPARK_HOME = Path(pyspark.__file__).parent
STARTS_S = 300.0


@contextmanager
def daemon(log: Path, *words: str, told: str) -> Iterator[str]:
    """A part of the cluster, and what its log says behind `told`."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(log.parent / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with open(log, "w") as file:
        running = subprocess.Popen(
            [str(SPARK_HOME / "bin/spark-class"), *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield awaited(log, told, running)
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait()


def awaited(log: Path, told: str, running: "subprocess.Popen[bytes]") -> str:
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until:
        found = re.search(told, log.read_text())
        if found:
            return found[1]
        assert running.poll() is None, log.read_text()
        time.sleep(0.2)
    raise AssertionError(f"{told} not seen in {STARTS_S} s:\n{log.read_text()}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    master_words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    worker_words = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
    small = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
    with daemon(
        folder / "master.log",
        *[*master_words, "--port", "0", "--webui-port", "0"],
        told=r"Starting Spark master at (\S+)",
    ) as url:
        joined = r"Successfully registered with master (\S+)"
        with (
            daemon(folder / "worker-1.log", *worker_words, *small, url, told=joined),
            daemon(folder / "worker-2.log", *worker_words, *small, url, told=joined),
        ):
            yield url


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(7, len(FAULTS) + 20)
    world.live(500)
    world.plant(FAULTS)
    world.live(500)
    world.pass_time(2 * GRACE_MS)
    folder = tmp_path_factory.mktemp("snapshots") / "s1"
    world.log.cut(folder)
    return folder


def reconcile(
    snapshot: Path, out: Path, *program_words: str, master: str | None
) -> dict[str, bytes]:
    """Every file of the tables; of recon_run too."""
    words = ["reconcile", "--snapshot", str(snapshot), "--out", str(out)]
    if master is not None:
        words += ["--master", master]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYSPARK_PYTHON"] = sys.executable
    done = subprocess.run(
        [*program_words, *words], capture_output=True, text=True, env=environment, timeout=1_500
    )
    assert done.returncode == 1, done.stderr  # FAIL, as planted
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.glob("recon_*/**/*.parquet"))
    }


def test_a_cluster_makes_the_same_bytes(master: str, snapshot: Path, tmp_path: Path) -> None:
    python = [sys.executable, "-m", "popmq_pipelines"]
    submit = [str(SPARK_HOME / "bin/spark-submit"), "--master", master, program.__file__]
    here = reconcile(snapshot, tmp_path / "here", *python, master="local[1]")
    there = reconcile(snapshot, tmp_path / "there", *python, master=master)
    submitted = reconcile(snapshot, tmp_path / "submitted", *submit, master=None)
    assert len(here) >= 7
    assert there == here
    assert submitted == here
