"""Are the files of others those that their packages have?"""

import re
from hashlib import sha256
from pathlib import Path

import popmq_console

FOLDER = Path(popmq_console.__file__).parent / "static" / "vendor"
LINE = re.compile(
    r"^(\S+\.(?:js|css))\s+(\S+ [\d.]+)\s+(\S+)\s+(\S+) (\S+)\s+([0-9a-f]{64})$", re.M
)


def test_each_file_is_listed_with_its_checksum() -> None:
    listed = LINE.findall((FOLDER / "VENDORED.txt").read_text())
    here = {one.name for one in FOLDER.iterdir() if one.suffix in (".js", ".css")}
    assert {name for name, *_ in listed} == here
    for name, _, _, _, licence, checksum in listed:
        assert sha256((FOLDER / name).read_bytes()).hexdigest() == checksum, name
        assert (FOLDER / licence).read_text().strip()


def test_no_page_asks_another_machine() -> None:
    root = FOLDER.parents[1]
    for path in [*root.rglob("*.html"), root / "static/console.js", root / "static/console.css"]:
        found = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", path.read_text())
        assert found == [], path
