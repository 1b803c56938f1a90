"""The units start what exists; tests/compose asks systemd itself."""

import re
from pathlib import Path

from popmq_cli.main import COMMANDS
from popmq_common.metrics.metrics_http import SCRAPE_S_MAX
from popmq_proxy.app import DRAIN_S

FOLDER = Path(__file__).resolve().parents[3] / "deploy/systemd"
UNITS = sorted(FOLDER.glob("*.service"))
CONTAINED = (FOLDER / "popmq-.service.d/contained.conf").read_text()


def values(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


def test_there_is_a_unit_for_each_service() -> None:
    started = {values(unit.read_text(), "ExecStart")[0].split()[1] for unit in UNITS}
    assert started == {"broker", "proxy", "nameserver", "standalone"}
    assert started <= COMMANDS.keys()


def test_a_stop_waits_longer_than_a_drain() -> None:
    (timeout_s,) = values(CONTAINED, "TimeoutStopSec")
    assert int(timeout_s) > DRAIN_S + SCRAPE_S_MAX


def test_the_drop_in_is_for_every_unit() -> None:
    assert all(unit.name.startswith("popmq-") for unit in UNITS)
