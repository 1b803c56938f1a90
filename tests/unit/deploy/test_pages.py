"""What the pages on clusters must say, for whoever reads only one of them."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "deploy/docker-compose.yml").read_text())


@pytest.mark.parametrize("page", ["README.md", "docs/deploy.md", "docs/operations.md"])
def test_that_replicas_must_be_asked_for_is_said(page: str) -> None:
    text = (ROOT / page).read_text()
    assert re.search(r"no replicas|replicas\]\(\S+\)[^|]*by default there are none", text)


def test_every_service_is_in_the_table() -> None:
    rows = re.findall(r"^\| ([a-z0-9, -]+) \|", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE)
    told = {name for row in rows for name in row.split(", ")}
    assert set(COMPOSE["services"]) - {"grafana"} <= told


@pytest.mark.parametrize("page", ["README.md", "docs/deploy.md"])
def test_who_opens_clients_port_opens_no_other(page: str) -> None:
    text = (ROOT / page).read_text()
    assert "POPMQ_OPERATORS_BIND" in text
    assert not re.search(r"POPMQ_BIND=0\.0\.0\.0` opens them", text)


def test_the_receiver_of_alerts_is_documented() -> None:
    text = (ROOT / "docs/deploy.md").read_text()
    assert "    POPMQ_ALERT_WEBHOOK=" in text
    assert "/etc/alertmanager/alertmanager.yml" in text
