"""What the deployments and their page set is read by somebody."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from popmq_broker.config import BrokerConfig
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.config import ProxyConfig

ROOT = Path(__file__).resolve().parents[3]
CLASSES = {"BROKER": BrokerConfig, "PROXY": ProxyConfig, "NAMESERVER": NameserverConfig}
KNOWN = {
    f"POPMQ_{service}_{field.name.upper()}"
    for service, config in CLASSES.items()
    for field in fields(config)
}
SETTING = re.compile(r"\b(POPMQ_(?:BROKER|PROXY|NAMESERVER)_[A-Z_]+)(?=[:=])")
FILES = [
    ROOT / "docs/deploy.md",
    *sorted((ROOT / "deploy").glob("*.yml")),
    *sorted((ROOT / "deploy/systemd").glob("*.service")),
    *sorted((ROOT / "tests/compose").glob("*.yml")),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_setting_means_something(file: Path) -> None:
    names = set(SETTING.findall(file.read_text()))
    of_compose = {name for name in names if name.endswith("_MEMORY")}
    assert names - KNOWN - of_compose == set()


def test_there_are_settings_to_look_at() -> None:
    assert sum(len(SETTING.findall(file.read_text())) for file in FILES) > 20
