"""Prometheus's own tool, and where the rules are that it judges."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/monitoring"
OWN_PROMTOOL = ROOT / ".tools/usr/bin/promtool"
MISSING = "promtool is missing: make promtool, or apt-get install prometheus"


def promtool(*words: str) -> str:
    program = shutil.which("promtool") or (str(OWN_PROMTOOL) if OWN_PROMTOOL.is_file() else None)
    assert program, MISSING
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
