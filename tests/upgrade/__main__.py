"""`python -m upgrade BEFORE [GAP_S]`: from the wheel of commit BEFORE to this one, and back."""

import sys
import tempfile
from pathlib import Path

from upgrade.campaign import campaign
from upgrade.wheels import installed

GAP_S = 5.0


def main(arguments: list[str]) -> None:
    before, *rest = arguments
    gap_s = float(rest[0]) if rest else GAP_S
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = installed(before, "before", folder / "wheels")
        new = installed("", "after", folder / "wheels")
        (folder / "cluster").mkdir()
        wrong = campaign(folder / "cluster", old, new, gap_s=gap_s)
    for line in wrong:
        print(f"WRONG {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
