"""A real Prometheus scrapes a running cluster: has every panel data, are alerts silent?"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board_figures import Board, Span, boards
from harness.processes import Server
from monitoring.scraped import ask, audited, loaded, panels, prometheus, scraped
from picture import draw

from popmq import Client

BOARDS = {"overview", "group", "store", "proxy", "replicas"}
SOON_S = 100.0
EXPECTED_ALERTS = {"AuditFailed", "DeadLetters"}
"""The load makes dead letters, and an audit has found something."""


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
    empty = panels()
    assert len(empty) > 60
    with (
        scraped(tmp_path, brokers=2, replicas=2) as (server, targets),
        loaded(server),
        audited(tmp_path / "audit") as audits,
        prometheus(tmp_path, {**targets, "sources": audits}) as address,
    ):
        began_s = time.time()
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
        assert {"AuditFailed"} <= firing <= EXPECTED_ALERTS
        drawn: list[Board] = []

        def all_drawn() -> bool:  # a range may end before the newest value
            drawn[:] = boards(address, Span(began_s, time.time()))
            return not any(board.empty for board in drawn)

        until(all_drawn)
        assert {board.name for board in drawn} == BOARDS
        for board in drawn:
            for panel in board.panels:
                legends = [line.legend for line in panel.lines]
                assert len(legends) == len(set(legends)), f"{board.name}: {panel.title}"
        assert draw(drawn, tmp_path / "pictures") == []
        up = ask(address, "query", query='count(up{job="popmq"} == 1)')
        assert up["result"][0]["value"][1] == "6"
