"""Translated pages whose original has changed: `make translations`.

A translated page begins with a line that names its original and the original's state when it was
translated:

    <!-- of ../tutorial.md 3f2a91c07d5e -->

Without options, prints each page that is behind, and the command that shows what to translate.
`--stamp` writes the present state into all pages: for when you have translated that.
"""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OF = re.compile(r"<!-- of (\S+) ([0-9a-f]{12}) -->\n")


class Translation(NamedTuple):
    page: Path
    original: Path
    of: str
    """The state of the original that was translated."""

    @property
    def is_behind(self) -> bool:
        return self.of != state(self.original.read_bytes())

    def stamped(self) -> str:
        """Its text, as a translation of the present original."""
        first, _, rest = self.page.read_text().partition("\n")
        return first.replace(self.of, state(self.original.read_bytes())) + "\n" + rest


def state(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.zh-CN.md")), *sorted((ROOT / "docs" / "zh").rglob("*.md"))]


def translation(page: Path) -> Translation:
    """Raises ValueError: the first line does not name an original."""
    of = OF.match(page.read_text())
    original = Path(os.path.normpath(page.parent / of[1])) if of else page
    if of is None or original == page or not original.is_file():
        raise ValueError(f"{page}: the first line must be <!-- of ORIGINAL STATE -->")
    return Translation(page, original, of[2])


def base(one: Translation) -> str | None:
    """The newest commit whose original is the one that was translated; None: there is none."""
    name = str(one.original.relative_to(ROOT))
    for commit in _git("log", "--format=%h", "--", name).decode().split():
        if state(_git("show", f"{commit}:{name}")) == one.of:
            return commit
    return None


def _git(*arguments: str) -> bytes:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).stdout


def main() -> int:
    behind = [one for one in map(translation, pages()) if one.is_behind]
    for one in behind:
        page, original = one.page.relative_to(ROOT), one.original.relative_to(ROOT)
        if "--stamp" in sys.argv[1:]:
            one.page.write_text(one.stamped())
            print(f"{page}: of {original} as it is now")
        else:
            print(f"{page} is behind: git diff {base(one) or 'COMMIT'} -- {original}")
    return 1 if behind and "--stamp" not in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
