"""Do dashboards and rules ask for figures that there are?"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from board_figures import GRID_WIDTH
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from harness.broker import EngineDriver
from monitoring.promtool import RULES, promtool
from prometheus_client import CollectorRegistry, ProcessCollector

from popmq_broker import metrics as broker_metrics
from popmq_broker import replica_metrics
from popmq_common.metrics.metric import MetricKind
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_internal.v1 import link_pb2 as link
from popmq_nameserver.core.route_table import RouteTable
from popmq_nameserver.rpc import NameserverRpc
from popmq_pipelines.report.gauges import FIGURES, SCHEDULE
from popmq_proxy import metric_table as proxy_table
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.sessions import Sessions

GRAFANA = RULES / "grafana"
ENDINGS = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}
OF_PROMETHEUS = {"up", "ALERTS"}
OF_OTHERS = {
    "haproxy_backend_active_servers",
    "haproxy_frontend_current_sessions",
    "haproxy_frontend_limit_sessions",
    "alertmanager_notifications_failed_total",
}
"""HAProxy's and Alertmanager's own; the tests of Compose hold them against both."""
FIGURE = r"[a-z_:]*popmq_[a-z0-9_:]*|(?:process|haproxy|alertmanager)_[a-z_]+|up\b|ALERTS"
OF_EVERY_SERVICE = {"popmq_build_info"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[set[str]]:
    """The names on the pages of all services."""
    driver = EngineDriver(tmp_path)
    nameserver = NameserverRpc(RouteTable(1), SystemClock(), logs.get("nameserver"))
    own = CollectorRegistry()
    ProcessCollector(registry=own)
    registries = (
        broker_metrics.registry(driver.broker),
        replica_metrics.registry("broker-a", [_Leading()]),
        _proxy_registry(),
        nameserver.registry,
        own,
    )
    yield {name for registry in registries for name in _names(registry)}
    driver.close()


class _Leading:
    """A replica with one follower."""

    broker = None

    def describe(self) -> link.ReplicaGroupReply:
        members = [
            link.ReplicaMember(replica="a1", role="primary"),
            link.ReplicaMember(replica="a2", role="in sync"),
        ]
        return link.ReplicaGroupReply(replica="a1", role="primary", members=members)


def _proxy_registry() -> CollectorRegistry:
    """With the gauges that other parts of a proxy show."""
    metrics = ProxyMetrics(Sessions(1, 1))
    for definition in proxy_table.ALL:
        if definition.kind is MetricKind.GAUGE and definition is not proxy_table.RPCS_NOW:
            metrics.show(definition, dict)
    return metrics.registry


def _names(registry: CollectorRegistry) -> Iterable[str]:
    for family in registry.collect():
        for ending in ENDINGS[family.type]:
            yield family.name + ending


def _expressions() -> dict[str, str]:
    """Where it stands → what is asked."""
    found = {}
    for file in sorted((GRAFANA / "dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                found[f"{file.name}: {panel['title']}: {target['legendFormat']}"] = target["expr"]
    for file in (RULES / "recording.yml", RULES / "alerts.yml"):
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                found[rule.get("alert") or rule["record"]] = rule["expr"]
    return found


def _recorded() -> set[str]:
    groups = yaml.safe_load((RULES / "recording.yml").read_text())["groups"]
    return {rule["record"] for group in groups for rule in group["rules"]}


def test_every_figure_that_is_asked_for_is_served(served: set[str]) -> None:
    of_audits = {*FIGURES, *SCHEDULE}
    known = served | _recorded() | of_audits | OF_PROMETHEUS | OF_OTHERS | OF_EVERY_SERVICE
    assert len(_expressions()) > 60
    for place, expression in _expressions().items():
        asked = set(re.findall(FIGURE, expression))
        assert asked, place
        assert asked <= known, f"{place} asks for {asked - known}"


def test_prometheus_understands_every_panel(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"panel:{number}",
            "expr": expression.replace("$group", "g").replace("$topic", "t"),
        }
        for number, expression in enumerate(_expressions().values())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_the_dashboards_are_what_their_tables_say() -> None:
    subprocess.run([sys.executable, str(RULES / "dashboards.py"), "check"], check=True)


def test_grafana_is_told_where_everything_is() -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/popmq.yml").read_text())[
        "datasources"
    ]
    uids = set()
    for file in (GRAFANA / "dashboards").glob("*.json"):
        board = json.loads(file.read_text())
        uids.add(board["uid"])
        for panel in board["panels"]:
            assert panel["datasource"]["uid"] == source["uid"]
            assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= GRID_WIDTH
        assert holes(board) == [], file.name
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
    assert len(uids) == 5


def holes(board: dict[str, Any]) -> list[tuple[int, int]]:
    """(column, row) of the page that no panel covers, or more than one does."""
    places = [panel["gridPos"] for panel in board["panels"]]
    rows = max(place["y"] + place["h"] for place in places)
    covered = Counter(
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    return [(x, y) for y in range(rows) for x in range(GRID_WIDTH) if covered[x, y] != 1]


def test_grafana_s_own_model_knows_every_word_of_a_dashboard() -> None:
    """Read and written again by Grafana's SDK: what it does not know would be lost on the way."""
    plugins.register_default_plugins()
    for file in sorted((GRAFANA / "dashboards").glob("*.json")):
        told = json.loads(file.read_text())
        encoded = JSONEncoder(sort_keys=True).encode(Dashboard.from_json(told))
        assert list(lost(told, json.loads(encoded), file.name)) == []


def lost(told: Any, again: Any, place: str) -> Iterator[str]:
    """What is not there any more, or is another; what Grafana adds is its own business."""
    if isinstance(told, dict) and isinstance(again, dict):
        for name in told:
            if name not in again:
                yield f"{place}.{name}"
            else:
                yield from lost(told[name], again[name], f"{place}.{name}")
    elif isinstance(told, list) and isinstance(again, list) and len(told) == len(again):
        for number, (one, other) in enumerate(zip(told, again, strict=True)):
            yield from lost(one, other, f"{place}[{number}]")
    elif told != again:
        yield f"{place}: {told} became {again}"
