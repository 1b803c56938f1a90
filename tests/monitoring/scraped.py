"""A real Prometheus beside a running cluster with something of everything in it."""

import asyncio
import json
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from harness.processes import Server, cluster, free_port
from harness.replica_processes import replica_process
from monitoring.load import BILLING, LINES, ORDERING, ORDERS, PLACED, WATCHING, load
from monitoring.promtool import RULES, program

from popmq_pipelines.audit.summary import COUNTED
from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.report import gauges

AUDITS = "sources"
"""The service that shows what audits said."""


class Target(NamedTuple):
    service: str
    port: int


@contextmanager
def scraped(
    folder: Path, brokers: int = 1, proxies: int = 1, replicas: int = 0
) -> Iterator[tuple[Server, dict[str, Target]]]:
    """A cluster, and where its figures are. `replicas`: of a further broker."""
    names = ["nameserver"]
    names += [f"broker-{'abcd'[i]}" for i in range(brokers)]
    names += [f"proxy-{i + 1}" for i in range(proxies)]
    targets = {name: Target(name.partition("-")[0], free_port()) for name in names}
    own = {
        name: {f"POPMQ_{target.service.upper()}_METRICS_PORT": str(target.port)}
        for name, target in targets.items()
    }
    env = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_PROXY_INVISIBLE_MS_DEFAULT": "2000"}
    with (
        cluster(folder, env, brokers=brokers, proxies=proxies, own=own) as server,
        _replicas(folder, server, replicas) as of_replicas,
    ):
        yield server, {**targets, **of_replicas}


@contextmanager
def _replicas(folder: Path, server: Server, count: int) -> Iterator[dict[str, Target]]:
    nameserver = f"127.0.0.1:{server.processes['nameserver'].port}"
    started, targets = [], {}
    try:
        for name in [f"r{number + 1}" for number in range(count)]:
            target = targets[name] = Target("broker", free_port())
            process = replica_process(folder, name, nameserver)
            process.env = {**process.env, "POPMQ_BROKER_METRICS_PORT": str(target.port)}
            started.append(process)
            process.start()
        yield targets
    finally:
        for process in reversed(started):
            process.stop()


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, Target]) -> Iterator[str]:
    """Its address; rules as they are shipped, asked every second. `targets`: by what an instance is
    called."""
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES / name) for name in config["rule_files"]]
    del config["alerting"]
    services = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"service": service, "instance": name}}
        for name, (service, port) in targets.items()
    ]
    jobs: dict[str, list[Any]] = {"popmq": [], "audit": []}
    for name, found in zip(targets, services, strict=True):
        jobs["audit" if targets[name].service == AUDITS else "popmq"].append(found)
    assert jobs.keys() <= {job["job_name"] for job in config["scrape_configs"]}
    config["scrape_configs"] = [
        {"job_name": job, "static_configs": found} for job, found in jobs.items()
    ]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    port = free_port()
    command = [program("prometheus"), f"--config.file={file}"]
    command += [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    with open(folder / "prometheus.log", "wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(20)


@contextmanager
def audited(folder: Path) -> Iterator[Target]:
    """Where Prometheus gets what audits have left: one of two brokers has lost a message."""
    folder.mkdir()
    now_s = time.time()
    balance = [dict.fromkeys((*COUNTED, "not_leased"), 0) | {"acked": 1_000}]
    for broker, lost in (("broker-a", 0), ("broker-b", 1)):
        report = Report(
            snapshot_id=broker,
            broker=broker,
            verdict=AuditVerdict.FAIL if lost else AuditVerdict.PASS,
            as_of_ms=int(now_s * 1000),
            finding_counts={"message missing": lost} if lost else {},
            balance=balance,
            watermark=1 << 20,
        )
        gauges.write(folder / f"{broker}.prom", gauges.text(report, now_s))
    gauges.write(folder / "schedule.prom", gauges.schedule_text(600, 1))
    port = free_port()
    command = [sys.executable, "-m", "popmq_cli.cluster.sources", "--host", "127.0.0.1"]
    running = subprocess.Popen([*command, "--port", str(port), "--figures", str(folder)])
    try:
        yield Target(AUDITS, port)
    finally:
        running.terminate()
        running.wait(20)


@contextmanager
def loaded(server: Server) -> Iterator[None]:
    """Load inside, through the first proxy and the last."""
    for topic, kind in ((ORDERS, "mixed"), (LINES, "fifo"), (PLACED, "transaction")):
        server.cli("topic", "create", topic, "--type", kind, "--queues", "2")
    for group in (BILLING, WATCHING):
        server.cli("group", "create", group, "--from", "first")
    server.cli("group", "create", ORDERING, "--fifo", "--from", "first")
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    failed: list[BaseException] = []

    async def loads() -> None:
        await asyncio.gather(*(load(one, stop) for one in {server.endpoint, server.other_endpoint}))

    def run() -> None:
        try:
            loop.run_until_complete(loads())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
        assert failed == []


def ask(address: str, path: str, **query: str) -> Any:
    """Prometheus's answer, None while it has none."""
    try:
        url = f"{address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as page:
            return json.loads(page.read())["data"]
    except OSError:
        return None


def panels() -> dict[str, str]:
    """Where it stands → the query, for all groups and topics."""
    found = {}
    for file in sorted((RULES / "grafana/dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$group", ".+").replace("$topic", ".+")
                found[f"{file.stem}: {panel['title']}: {target['legendFormat']}"] = query
    return found
