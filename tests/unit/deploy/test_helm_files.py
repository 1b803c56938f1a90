"""What the chart's files say by themselves; `make helm` has helm render them."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy/helm/popmq"
PAGE = ROOT / "docs/kubernetes.md"
VALUES = (CHART / "values.yaml").read_text()
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
SERVICES = ("broker", "proxy", "nameserver")


def _paths(values: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield before + name
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")


def test_each_variable_means_something() -> None:
    known = (ROOT / "docs/configuration.md").read_text()
    for text in (TEMPLATES, VALUES, PAGE.read_text()):
        named = set(re.findall(r"\bPOPMQ_(?:BROKER|PROXY|NAMESERVER)_[A-Z_]*[A-Z]\b", text))
        assert {name for name in named if f"`{name}`" not in known} == set()


def test_each_value_is_used() -> None:
    """By its path, or of a service as `$own.…`."""
    values = yaml.safe_load(VALUES)
    leaves = set(_paths(values)) - {path.rpartition(".")[0] for path in _paths(values)}
    for path in leaves:
        service, _, own = path.partition(".")
        shared = service in SERVICES and re.search(rf"\$own\.{own.split('.')[0]}\b", TEMPLATES)
        used = re.search(rf"\.Values\.{re.escape(path)}\b", TEMPLATES)
        assert used or shared or path.startswith(("broker.resources", "proxy.resources")), path


def test_each_value_that_the_page_names_exists() -> None:
    named = set(re.findall(r"--set ([\w.]+)=", PAGE.read_text()))
    roots = r"image|broker|proxy|nameserver|service|tls(?!\.crt|\.key)"
    named |= set(re.findall(rf"`((?:{roots})\.[\w.]+)`", PAGE.read_text()))
    assert len(named) > 5
    known = set(_paths(yaml.safe_load(VALUES)))
    assert {name for name in named if name not in known} == set()


def test_it_is_of_the_projects_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_the_page_says_what_was_not_tried() -> None:
    last = PAGE.read_text().strip().splitlines()[-1]
    assert "helm lint" in last
    assert "not yet run in a cluster" in last


def test_that_there_are_no_replicas_is_said() -> None:
    for text in (VALUES, PAGE.read_text(), (CHART / "templates/NOTES.txt").read_text()):
        assert "no replicas" in text
