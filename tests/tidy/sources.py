"""The sources that the rules are about."""

from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = [*sorted((ROOT / "services").iterdir()), ROOT / "sdk", ROOT / "pipelines"]
BESIDE = [ROOT / "bench", ROOT / "deploy"]


@cache
def production() -> dict[Path, str]:
    """Path → text of each module of the product."""
    found = {path: path.read_text() for root in PRODUCTION for path in sorted(root.rglob("*.py"))}
    assert len(found) > 400
    return found


def by_path(sources: dict[Path, str]) -> dict[str, str]:
    return {str(path.relative_to(ROOT)): text for path, text in sources.items()}


def by_module(sources: dict[Path, str]) -> dict[str, str]:
    """Keys are dotted: popmq_broker.core.leases; a package is named without `__init__`."""
    return {dotted(path): text for path, text in sources.items()}


def dotted(path: Path) -> str:
    root = next(root for root in [*PRODUCTION, *BESIDE] if path.is_relative_to(root))
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
