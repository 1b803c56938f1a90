"""The versions that images install: a file of deploy/requirements, read."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "deploy/requirements"


def pins(file: str) -> dict[str, set[str]]:
    """name==version → the hashes of its archives."""
    text = (FOLDER / f"{file}.txt").read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {pin: set(hashes) for pin, *hashes in lines}


def plain(pin: str) -> str:
    """As package indexes compare names."""
    return pin.lower().replace("_", "-")
