"""Does each alert fire when it should, and stay silent otherwise? Asked of Prometheus itself."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from monitoring.cases import CASES, Case
from monitoring.promtool import ROOT, RULES, promtool


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def scenario(name: str, series: dict[str, str], minutes: int, fires: bool) -> dict[str, Any]:
    """A test as promtool reads it. Only the alert's name and presence are compared: what is
    expected of a silent one is nothing."""
    count = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > 0'
    return {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"({count}) * 0 + 1",
                "eval_time": f"{minutes}m",
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
        ],
    }


def test_what_prometheus_is_given_is_well_formed() -> None:
    promtool("check", "config", str(RULES / "prometheus.yml"))
    promtool("check", "config", "--syntax-only", str(RULES / "prometheus-secured.yml"))


def test_each_alert_fires_and_stays_silent(tmp_path: Path) -> None:
    def both(name: str, case: Case) -> list[dict[str, Any]]:
        sides = ((case.fires, True), (case.silent, False))
        alert = name.partition(":")[0]
        return [scenario(alert, series, case.minutes, fires) for series, fires in sides]

    tests = [test for name, case in CASES.items() for test in both(name, case)]
    file = tmp_path / "tests.yml"
    rules = [str(RULES / "recording.yml"), str(RULES / "alerts.yml")]
    file.write_text(json.dumps({"rule_files": rules, "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(file))


def test_there_is_a_case_for_each_alert() -> None:
    assert [rule["alert"] for rule in alerts()] != []
    assert {rule["alert"] for rule in alerts()} == {name.partition(":")[0] for name in CASES}


def test_each_alert_is_explained() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    headings = {line[4:] for line in page.splitlines() if line.startswith("### ")}
    for rule in alerts():
        assert rule["alert"] in headings
        runbook = rule["annotations"]["runbook"]
        assert re.fullmatch(rf"docs/operations\.md#{rule['alert'].lower()}", runbook)
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
