"""What an inbox or a guard has seen since it was made."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class IdempotenceCounts:
    """Read the attributes whenever you like; they only grow."""

    handled: int = 0
    """First deliveries whose handler succeeded."""
    suppressed: int = 0
    """Duplicates that were kept from the handler."""
    in_progress: int = 0
    """Turned away because another consumer works on the same key, or an earlier message has not
    come yet."""
    key_missing: int = 0
    payload_mismatch: int = 0
    late: int = 0
    """Handlers that finished when their mark or lock had run out: too slow. Their effects may be
    doubled where nothing fences them."""

    def snapshot(self) -> dict[str, int]:
        return asdict(self)
