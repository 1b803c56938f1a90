"""A real Prometheus scrapes a running cluster: has every panel data, are alerts silent?"""

import asyncio
import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.processes import Server, cluster, free_port
from monitoring.load import BILLING, LINES, ORDERING, ORDERS, PLACED, WATCHING, load
from monitoring.promtool import RULES, program

SOON_S = 100.0
EXPECTED_ALERTS = {"DeadLetters", "AnswersNotOnDisk"}
"""The load makes dead letters."""


@contextmanager
def prometheus(folder: Path, targets: dict[str, int]) -> Iterator[str]:
    """Its address; rules as they are shipped, asked every second. `targets`: service → port."""
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES / name) for name in config["rule_files"]]
    services = [
        {"targets": [f"127.0.0.1:{at}"], "labels": {"service": name}}
        for name, at in targets.items()
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


@pytest.mark.timeout(300)
def test_every_panel_has_data_under_load_and_alerts_are_silent(tmp_path: Path) -> None:
    targets = {service: free_port() for service in ("nameserver", "broker", "proxy")}
    env = {f"POPMQ_{name.upper()}_METRICS_PORT": str(port) for name, port in targets.items()}
    env |= {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_PROXY_INVISIBLE_MS_DEFAULT": "2000"}
    # The audit's figures come by a file, from a run of Spark.
    empty = {place: asked for place, asked in panels().items() if "popmq_audit_" not in asked}
    assert len(empty) > 60
    with (
        cluster(tmp_path, env, brokers=1, proxies=1) as server,
        loaded(server),
        prometheus(tmp_path, targets) as address,
    ):
        deadline_s = time.monotonic() + SOON_S
        while empty and time.monotonic() < deadline_s:
            time.sleep(1)
            for place, query in list(empty.items()):
                data = ask(address, "query", query=query)
                if data and data["result"]:
                    del empty[place]
        assert sorted(empty) == []
        rules = ask(address, "rules")
        assert rules is not None
        found = [rule for group in rules["groups"] for rule in group["rules"]]
        assert len(found) > 25
        assert [rule["name"] for rule in found if rule["health"] != "ok"] == []
        firing = {rule["name"] for rule in found if rule.get("state") == "firing"}
        assert firing <= EXPECTED_ALERTS
        up = ask(address, "query", query='count(up{job="popmq"} == 1)')
        assert up["result"][0]["value"][1] == "3"
