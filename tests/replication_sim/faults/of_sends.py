"""Faults of sends that are tried again."""

from collections.abc import Iterator
from unittest.mock import patch

from replication_sim import known
from replication_sim.faults.planting import fault
from replication_sim.leading import PrimaryRole
from replication_sim.loop import Wake

from popmq_broker.core.sends.known_sends import KnownSends


@fault
def a_new_primary_knows_no_sends() -> Iterator[None]:
    def read(*_: object) -> KnownSends:
        return KnownSends(known.KNOWN_MAX, known.AGE_MS)

    with patch.object(known, "read", read):
        yield


@fault
def a_repeat_is_answered_before_the_first_is_committed() -> Iterator[None]:
    def repeated(self: PrimaryRole, reply: Wake, number: int, at: int) -> None:
        log = self._replica.disk.log
        self._answer(number, at, bytes(log[at : at + log[at]]), reply)

    with patch.object(PrimaryRole, "_repeated", repeated):
        yield
