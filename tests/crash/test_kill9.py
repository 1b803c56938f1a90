"""kill -9 of the broker under load, again and again: what was answered OK stays so.

make crash RUNS=500
"""

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from crash import campaign

RUNS = int(os.environ.get("CRASH_RUNS", "20"))


@pytest.mark.timeout(600 + 15 * RUNS)
def test_what_was_answered_ok_survives_kill_9() -> None:
    folder = Path(tempfile.mkdtemp(prefix="popmq-crash-"))  # it stays when something is found
    told = campaign.run(RUNS, random.SystemRandom().randrange(1 << 32), folder)
    oks = told.record.oks()
    assert min(oks["sent"], oks["acked"]) > 5 * RUNS
    assert min(oks["delayed"], oks["half"]) > RUNS
    assert min(oks.values()) > RUNS // 4, "a kind of call is hardly ever answered OK"
    shutil.rmtree(folder)
