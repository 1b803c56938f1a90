"""`python -m chaos [--only NAMES] [--json] [--write FILE] [--lose]`: the failure table.

At the end the audit of all brokers must pass. With --lose, confirmed messages vanish from a
broker's log after the other faults: then all that is asked is whether the audit finds it.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from chaos import report
from chaos.campaign import campaign
from chaos.clients import official_go, official_python
from chaos.faults import FAULTS, LOSS, LOST_TOPIC


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--only", default="", help="faults by name, separated by commas")
    parser.add_argument("--json", action="store_true", help="the rows as JSON, last")
    parser.add_argument("--write", type=Path, help="put the table into this file")
    parser.add_argument("--keep", type=Path, help="a folder for logs and events")
    parser.add_argument("--lose", action="store_true", help="messages vanish; is it found?")
    asked = parser.parse_args()
    wanted = set(filter(None, asked.only.split(",")))
    unknown = wanted - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    faults = [fault for fault in FAULTS if not wanted or fault.name in wanted]
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if asked.lose:
            faults.append(LOSS)
        rows, audited = campaign(folder, faults, official_python(), official_go(folder))
    print(report.markdown(rows))
    print(f"the audit ended with {audited.code}, and found {dict(audited.found)}")
    if asked.lose:
        wrong = audited.overlooked(LOST_TOPIC)
    else:
        wrong = report.wrong(rows, {fault.name for fault in FAULTS if fault.gentle})
        wrong += audited.not_passed()
    for line in wrong:
        print(f"WRONG {line}")
    if asked.write:
        report.write(asked.write, rows)
    if asked.json:
        print(json.dumps(report.document(rows)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
