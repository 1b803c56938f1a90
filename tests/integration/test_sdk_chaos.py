"""Consumers, proxies and the broker stopped and killed while messages flow; `make sdk-chaos` is the
long form."""

from pathlib import Path

import pytest
from sdk_chaos.campaign import Fault, campaign


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["stop", "kill"])
def test_nothing_is_lost(fault: Fault, tmp_path: Path) -> None:
    findings = campaign(tmp_path / fault, fault, 300, rate=60.0, gap_s=0.5)
    assert findings.wrong == []
    assert {row.target for row in findings.rows} >= {"consumer", "proxy", "broker"}
