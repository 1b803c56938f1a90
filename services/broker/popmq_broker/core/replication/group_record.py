"""The register's record of a replica group: who is primary, in which epoch, who is in sync.

    {"format": 1, "epoch": 3, "primary": "a2", "address": "10.0.0.2:10911", "identity": "5f0c…",
     "inSync": {"a1": "77b1…", "a2": "c09e…"}, "minInSync": 2, "beganMs": 1764065412000,
     "forcedEpoch": 0}

A member in sync is a replica *and its incarnation*, the id of its data directory: a replica that
comes back with an empty directory has another one, and is not the member that was counted.

Who changes it: the primary within its epoch, and whoever begins the next one. Always by compare and
set, so that of two that try one fails.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from popmq_common.errors import RegisterRecordUnreadable

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    epoch: int
    primary: str
    """The replica that may append in this epoch."""
    address: str
    """host:port of the primary's link."""
    identity: str
    """Of the data: a directory with another one belongs to another group."""
    in_sync: Mapping[str, str] = field(default_factory=dict)
    """Replica → incarnation. A record is committed when each of them has it on disk."""
    min_in_sync: int = 1
    """Nothing is committed with fewer."""
    began_ms: int = 0
    """When the epoch began; later than every one before, whatever the clocks say."""
    forced_epoch: int = 0
    """The last epoch that an operator forced, with a replica that may lack what was committed; 0:
    none was."""

    def counts(self, replica: str, incarnation: str) -> bool:
        """That directory of that replica is in sync."""
        return self.in_sync.get(replica) == incarnation


def encode(record: GroupRecord) -> bytes:
    fields = {
        "format": FORMAT,
        "epoch": record.epoch,
        "primary": record.primary,
        "address": record.address,
        "identity": record.identity,
        "inSync": dict(sorted(record.in_sync.items())),
        "minInSync": record.min_in_sync,
        "beganMs": record.began_ms,
        "forcedEpoch": record.forced_epoch,
    }
    return json.dumps(fields).encode()


def decode(value: bytes, *, where: str) -> GroupRecord:
    """Raises `RegisterRecordUnreadable`."""
    try:
        fields = json.loads(value)
        if fields["format"] != FORMAT:
            raise ValueError(f"format {fields['format']}; this version knows {FORMAT}")
        in_sync = {str(replica): str(one) for replica, one in fields["inSync"].items()}
        record = GroupRecord(
            epoch=int(fields["epoch"]),
            primary=str(fields["primary"]),
            address=str(fields["address"]),
            identity=str(fields["identity"]),
            in_sync=in_sync,
            min_in_sync=int(fields["minInSync"]),
            began_ms=int(fields["beganMs"]),
            forced_epoch=int(fields["forcedEpoch"]),
        )
        if record.epoch < 1 or record.min_in_sync < 1 or not record.primary:
            raise ValueError("an epoch, a minimum and a primary are needed")
        if record.primary not in in_sync:
            raise ValueError(f"{record.primary} is primary and not in sync")
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise RegisterRecordUnreadable(where=where, reason=repr(wrong)) from wrong
    return record
