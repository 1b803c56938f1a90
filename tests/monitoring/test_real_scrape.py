"""A real Prometheus scrapes a running cluster: has every panel data, are alerts silent?"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness.processes import Server, cluster, free_port
from monitoring.scraped import Target, ask, loaded, panels, prometheus

from popmq import Client

SOON_S = 100.0
EXPECTED_ALERTS = {"DeadLetters", "AnswersNotOnDisk"}
"""The load makes dead letters."""


@contextmanager
def scraped(folder: Path) -> Iterator[tuple[Server, dict[str, Target]]]:
    """A cluster of one service each, and where its figures are."""
    targets = {name: Target(name, free_port()) for name in ("nameserver", "broker", "proxy")}
    env = {f"POPMQ_{name.upper()}_METRICS_PORT": str(one.port) for name, one in targets.items()}
    env |= {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_PROXY_INVISIBLE_MS_DEFAULT": "2000"}
    with cluster(folder, env, brokers=1, proxies=1) as server:
        yield server, targets


def found(address: str, query: str) -> Any:
    """The rows that answer it now."""
    return (ask(address, "query", query=query) or {}).get("result")


def until(holds: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.5)


@pytest.mark.timeout(300)
def test_the_first_dead_letter_is_told(tmp_path: Path) -> None:
    """Of a group that is known, and has consumed nothing so far."""

    async def reject_one(server: Server) -> None:
        async with Client(server.endpoint) as client:
            await client.send("orders", b"1")
            (message,) = await client.receive("orders", "billing", wait_s=20)
            await client.reject(message, "not an order")

    with scraped(tmp_path) as (server, targets), prometheus(tmp_path, targets) as address:
        until(lambda: found(address, "popmq_nameserver_brokers == 1"))
        server.cli("group", "create", "billing", "--from", "first")
        known = 'popmq_dead_letter_messages{consumer_group="billing"} == 0'
        until(lambda: found(address, known))
        asyncio.run(reject_one(server))
        firing = 'ALERTS{alertname="DeadLetters",alertstate="firing",consumer_group="billing"}'
        until(lambda: found(address, firing))


@pytest.mark.timeout(300)
def test_every_panel_has_data_under_load_and_alerts_are_silent(tmp_path: Path) -> None:
    # The audit's figures come by a file, from a run of Spark.
    empty = {place: asked for place, asked in panels().items() if "popmq_audit_" not in asked}
    assert len(empty) > 60
    with (
        scraped(tmp_path) as (server, targets),
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
