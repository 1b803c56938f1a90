"""The brokers of a campaign, stopped, and audited as operators do it: `popmq-pipelines audit`."""

import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from popmq_pipelines.audit.verdict import AuditVerdict

COMMAND = Path(sys.executable).with_name("popmq-pipelines")
AUDIT_S_MAX = 900.0


@dataclass(frozen=True, slots=True)
class ClosingAudit:
    code: int
    """What the command ended with."""
    found: Counter[tuple[str, str]]
    """Kind of finding and topic → messages."""
    text: str
    """What the command printed."""

    def not_passed(self) -> list[str]:
        """What is wrong unless it is PASS."""
        passed = self.code == AuditVerdict.PASS.exit_code
        return [] if passed else [f"the audit does not pass:\n{self.text}"]

    def overlooked(self, topic: str) -> list[str]:
        """What is wrong unless clients' counts name the topic, of which confirmed messages are
        gone without a trace."""
        failed = self.code == AuditVerdict.FAIL.exit_code
        if failed and self.found["sent and not stored", topic]:
            return []
        return [f"the audit overlooks that messages of {topic} are lost:\n{self.text}"]


def audit(data_dirs: Sequence[Path], out: Path) -> ClosingAudit:
    """All brokers of a cluster, and what its clients counted. `out`: for its reports. Raises
    `TimeoutExpired`."""
    command = [str(COMMAND), "audit", *map(str, data_dirs), "--out", str(out), "--skew-s", "0"]
    done = subprocess.run(command, capture_output=True, timeout=AUDIT_S_MAX, check=False, text=True)
    found: Counter[tuple[str, str]] = Counter()
    findings = out / "cluster" / "findings.csv"
    if findings.exists():
        with open(findings, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found[row["kind"], row["topic"]] += int(row["offset_count"])
    return ClosingAudit(done.returncode, found, done.stdout + done.stderr)
