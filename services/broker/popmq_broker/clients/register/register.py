"""The register: one record per group of replicas, changed by compare-and-set, and heartbeats.

A group is the replicas of one broker. Its record says who is primary and which replicas are in
sync; here it is bytes. The register is off the hot path: it is written when a replica is promoted
and when the set in sync changes.

Rely on the compare-and-set for what must be right, never on `alive`: a replica that is not in it
may only be slow, and one that is may have died a moment ago.
"""

import re
from typing import Final, NamedTuple, Protocol

from popmq_common.process.config import ConfigError
from popmq_common.units import KiB

CALL_S: Final = 2.0
"""Bound of every call but `wait`, which may take this much longer than its own timeout."""
VALUE_BYTES_MAX: Final = 64 * KiB
TTL_S_MAX: Final = 3_600.0
NAME_CHARS_MAX: Final = 127
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Seen(NamedTuple):
    """A register at one moment."""

    value: bytes | None
    """The group's record; None: there is none yet."""
    version: int
    """0 when there is none; another one after each swap, never one from before."""
    alive: frozenset[str]
    """Replicas whose heartbeat has not run out."""


class Register(Protocol):
    """One object is bound to one group ("cluster/broker name").

    Each call raises `RegisterUnreachable` when the register does not answer in time, or refuses.
    """

    async def read(self) -> Seen:
        """What is there now; no older than what any call that has ended wrote."""
        ...

    async def swap(self, version: int, value: bytes) -> int | None:
        """Replace the record that has `version`; 0: there must be none. `value` has at most
        `VALUE_BYTES_MAX`, else `ValueError`.

        Returns the new version, which is durable. None: another version is there, and nothing was
        changed. After `RegisterUnreachable` nobody knows whether it happened: read.
        """
        ...

    async def wait(self, seen: Seen, timeout_s: float) -> Seen:
        """Return what is there as soon as it differs from `seen`, and at the timeout."""
        ...

    async def heartbeat(self, replica: str, ttl_s: float) -> None:
        """`replica` is in `alive` until `ttl_s` after this call reached the register. Call it
        again and again. Raises `ValueError` unless 0 < `ttl_s` <= `TTL_S_MAX`, and `ConfigError`
        for an illegal name."""
        ...

    async def leave(self, replica: str) -> None:
        """The heartbeat of `replica` ends now."""
        ...

    async def close(self) -> None:
        """Heartbeats run out by themselves."""
        ...


def checked_name(what: str, name: str) -> str:
    """`name`, which is part of keys and of file names. Raises `ConfigError`."""
    if _NAME.fullmatch(name) is None or len(name) > NAME_CHARS_MAX:
        raise ConfigError(
            f"{what} {name!r} cannot be part of a register's keys: take letters, digits, _ . and - "
            f"(the last two not first), at most {NAME_CHARS_MAX}"
        )
    return name


def checked_value(value: bytes) -> bytes:
    """Raises `ValueError`."""
    if len(value) > VALUE_BYTES_MAX:
        raise ValueError(f"a record has at most {VALUE_BYTES_MAX} bytes, not {len(value)}")
    return value


def checked_ttl_s(ttl_s: float) -> float:
    """Raises `ValueError`."""
    if not 0 < ttl_s <= TTL_S_MAX:
        raise ValueError(f"a heartbeat lasts more than 0 s and at most {TTL_S_MAX:g} s: {ttl_s:g}")
    return ttl_s
