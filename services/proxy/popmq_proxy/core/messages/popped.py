"""What pops gave: messages one by one, or by runs."""

from collections.abc import Sequence
from typing import NamedTuple

from popmq_common.link.protowire import sized
from popmq_common.records import receipt
from popmq_internal.v1 import link_pb2 as link

_RUNS_FIELD = b"\x22"


class PoppedHandles(NamedTuple):
    """Of messages that are not held any longer."""

    single: list[str]
    runs: list[tuple[str, list[int]]]
    """A handle, and the queue offsets of all that it stands for."""

    def each(self) -> list[str]:
        of_runs = [receipt.of_run(run, offset) for run, offsets in self.runs for offset in offsets]
        return self.single + of_runs


def handles_of(replies: Sequence[link.PopReply]) -> PoppedHandles:
    return PoppedHandles(
        [message.handle for reply in replies for message in reply.messages],
        [(run.handle, list(run.queue_offsets)) for reply in replies for run in reply.runs],
    )


def gave(reply: link.PopReply) -> bool:
    return bool(reply.messages or reply.runs)


def by_runs(reply: link.PopReply) -> link.PopReply:
    """Of a broker that was asked for runs; one that knows none gave messages all the same."""
    if not reply.messages:
        return reply
    made = link.PopReply()
    for message in reply.messages:
        attempts = [message.delivery_attempt] if message.delivery_attempt else []
        made.runs.add(
            handle=message.handle,
            records=[message.record],
            delivery_attempts=attempts,
            queue_offsets=[receipt.decode(message.handle).queue_offset],
        )
    return made


def held_run(run: link.PoppedRun) -> bytes:
    """A `ReceiveRecordsResponse` with it: the fields of a `HeldRun` are the same."""
    return sized(_RUNS_FIELD, run.SerializeToString())
