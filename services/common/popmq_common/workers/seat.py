"""What a worker is among the others: it stays when the process is started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seat:
    number: int
    name: str
    """In logs."""
    drains: bool = False
    """It is given clients only when no other can take them."""
