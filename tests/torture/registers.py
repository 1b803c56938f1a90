"""The register that replicas share, and its servers, which faults may strike too."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.processes import Process

KINDS = ("file",)


@dataclass(frozen=True)
class RegisterServers:
    url: str
    members: dict[str, Process] = field(default_factory=dict)


@contextmanager
def register_servers(kind: str, folder: Path) -> Iterator[RegisterServers]:
    assert kind == "file", kind
    folder.mkdir(parents=True, exist_ok=True)
    yield RegisterServers(f"file://{folder}")
