"""Leases named by runs instead of by handles."""

from collections.abc import Sequence

from popmq_common.records import receipt
from popmq_internal.v1 import link_pb2 as link


def runs_of(handles: Sequence[str]) -> tuple[list[link.RunPart], list[int]]:
    """Runs of the leases with these handles; and where the outcome of each is in the answer."""
    runs: dict[receipt.Receipt, link.RunPart] = {}
    members: dict[receipt.Receipt, list[int]] = {}
    for number, handle in enumerate(handles):
        ref = receipt.decode(handle)
        run = ref._replace(queue_offset=0, log_offset=0)
        if run not in runs:
            runs[run] = link.RunPart(handle=handle)
        runs[run].queue_offsets.append(ref.queue_offset)
        members.setdefault(run, []).append(number)
    answered = [number for run in runs for number in members[run]]
    return list(runs.values()), [answered.index(number) for number in range(len(handles))]
