"""A real Prometheus beside a running cluster with something of everything in it."""

import asyncio
import json
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from harness.processes import Server, free_port
from monitoring.load import BILLING, LINES, ORDERING, ORDERS, PLACED, WATCHING, load
from monitoring.promtool import RULES, program


class Target(NamedTuple):
    service: str
    port: int


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
    (name, *_) = (job["job_name"] for job in config["scrape_configs"])
    config["scrape_configs"] = [{"job_name": name, "static_configs": services}]
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
def loaded(server: Server) -> Iterator[None]:
    """Load inside."""
    for topic, kind in ((ORDERS, "mixed"), (LINES, "fifo"), (PLACED, "transaction")):
        server.cli("topic", "create", topic, "--type", kind, "--queues", "2")
    for group in (BILLING, WATCHING):
        server.cli("group", "create", group, "--from", "first")
    server.cli("group", "create", ORDERING, "--fifo", "--from", "first")
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(load(server.endpoint, stop))
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
