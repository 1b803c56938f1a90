"""What a console is told at its start."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from popmq import Tls
from popmq_console.reading.masks import Masks, WrongMaskFile, read_masks
from popmq_console.reading.protobuf_bodies import ProtobufTypes, WrongTypes, read_protobuf_types

__all__ = [
    "ConsoleConfig",
    "Masks",
    "ProtobufTypes",
    "WrongMaskFile",
    "WrongTypes",
    "read_masks",
    "read_protobuf_types",
]

PORT: Final = 8082
SESSION_MS: Final = 8 * 3_600_000
IDLE_MS: Final = 30 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """Raises `ValueError` for a path prefix that is none."""

    endpoint: str
    """Of the proxy, as a `popmq.Client` takes it."""
    endpoint_from: str = "the default"
    """Who named it, for the page of settings."""
    tls: Tls | None = None
    admin_secret: str = field(default="", repr=False)
    """Shown with every call of every visitor; empty: none."""
    host: str = "127.0.0.1"
    port: int = PORT
    """0: any free one."""
    path_prefix: str = ""
    """Before each address: /queue."""
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Names in the address bar, beside IP addresses and localhost."""
    secure_cookie: bool = False
    """The browser sends the cookie over HTTPS alone."""
    masks: Masks = field(default_factory=Masks)
    """What no visitor sees of messages."""
    protobuf: ProtobufTypes = field(default_factory=ProtobufTypes)
    """Of which types bodies are, by topic."""
    audit_dir: Path | None = None
    """Where audits leave their reports; None: nowhere."""
    session_ms: int = SESSION_MS
    """From the log-in on."""
    idle_ms: int = IDLE_MS
    """After the last page."""

    def __post_init__(self) -> None:
        prefix = self.path_prefix
        wrong = not prefix.startswith("/") or prefix.endswith("/") or not _is_plain(prefix)
        if prefix and wrong:
            text = "write it like /queue: a slash, letters, digits and - . _ /, no slash at the end"
            raise ValueError(f"the path prefix {prefix!r} cannot be used; {text}")


def _is_plain(prefix: str) -> bool:
    return prefix.isascii() and all(char.isalnum() or char in "-._/" for char in prefix)
