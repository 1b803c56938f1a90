"""The secured cluster as deploy/secured.yml has it, for processes of this machine."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILE = DEPLOY / "secured.yml"
SECURED: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
PASSWORD = "CHANGE-ME-PLEASE"


def settings(tls: Path) -> dict[str, str]:
    """Variables of nameserver, broker and proxy, whose files are in `tls`."""
    found: dict[str, str] = {}
    for name in ("nameserver-1", "broker-a", "proxy"):
        found |= variables(name, tls)
    return found


def variables(service: str, tls: Path) -> dict[str, str]:
    """Of one service of the file."""
    given: dict[str, str] = SECURED[service]["environment"]
    return {name: _default(value, tls) for name, value in given.items()}


def _default(value: str, tls: Path) -> str:
    """What Compose makes of it where no variable is set."""
    return re.sub(r"\$\{\w+:-(\w*)\}", r"\1", value).replace("/run/secrets", str(tls))


def first_user(tls: Path) -> None:
    """operator, as the file's comment says."""
    path = tls / "first-user.json"
    path.touch(0o600)
    path.write_text(json.dumps({"username": "operator", "password": PASSWORD}))


def preparation() -> list[str]:
    """The commands of the file's comment, the last of which starts the cluster."""
    head = FILE.read_text().partition("\nx-")[0]
    return re.findall(r"^#   (.*)$", head, re.MULTILINE)


def open_ports() -> set[str]:
    """SERVICE:PORT of those that docs/security.md says answer anyone."""
    page = (DEPLOY.parent / "docs/security.md").read_text()
    (table,) = re.findall(r"\n## Ports\n(.*?)(?=\n## )", page, re.DOTALL)
    rows = [row for row in table.splitlines() if row.startswith("| `") and "**anyone**" in row]
    return {port for row in rows for port in re.findall(r"`([\w-]+:\d+)`", row.split("|")[1])}
