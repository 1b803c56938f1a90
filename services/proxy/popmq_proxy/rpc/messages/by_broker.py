"""What a request says of leases, by the broker that gave them: each broker is asked once, and tells
an outcome of each lease."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice, repeat

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import BadRequest, InvalidReceiptHandle, NotServed, PopMQError
from popmq_common.records import receipt
from popmq_common.words import counted
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.status import OK, common, ok, status_of
from popmq_proxy.rpc.shared.context import CallContext

ENTRIES_MAX = 1_024

_REFUSALS = {
    link.LEASE_OUTCOME_EXPIRED: "its invisible time is over",
    link.LEASE_OUTCOME_SUPERSEDED: (
        "a newer handle of the message has taken its place, or its group was moved elsewhere"
    ),
    link.LEASE_OUTCOME_UNKNOWN: "the broker knows no such lease",
}


async def at_their_brokers(
    handles: Sequence[str],
    group: str,
    topic: str,
    ask: Callable[[str, list[str], bool], Awaitable[list[v2.Status]]],
) -> list[v2.Status]:
    """One status per handle, in order; `ask` gets all handles of a broker in one call, and whether
    that is the only one: then nobody else is held up by it. It tells one status per handle, or
    raises what is wrong with all of them."""
    places, statuses = _by_broker(handles, group, topic)
    for broker, numbers in places.items():
        try:
            found = await ask(broker, [handles[i] for i in numbers], len(places) == 1)
        except PopMQError as error:  # of this broker alone
            found = [status_of(error)] * len(numbers)
        statuses.update(zip(numbers, found, strict=True))
    return [statuses[i] for i in range(len(handles))]


def _by_broker(
    handles: Sequence[str], group: str, topic: str
) -> tuple[dict[str, list[int]], dict[int, v2.Status]]:
    """The numbers of the handles that each broker gave; and what is wrong with the others."""
    places: dict[str, list[int]] = {}
    wrong: dict[int, v2.Status] = {}
    for i, handle in enumerate(handles):
        try:
            places.setdefault(receipt.broker_of(handle, group, topic), []).append(i)
        except InvalidReceiptHandle as error:
            wrong[i] = status_of(error)
    return places, wrong


async def runs_at_their_brokers(
    ctx: CallContext,
    group: str,
    topic: str,
    runs: Sequence[consumer.RunPart],
    ask: Callable[[CallContext | None, str, list[link.RunPart]], Awaitable[list[v2.Status]]],
) -> tuple[v2.Status, list[consumer.RunRefusal]]:
    """The status of all, and what was refused; `ask` gets all runs of a broker in one call, and the
    call if it may wait for this broker. It tells one status per message, in order, or raises what
    is wrong with all of them."""
    count = sum(len(run.queue_offsets) for run in runs)
    if not 1 <= count <= ENTRIES_MAX:
        raise BadRequest(reason=f"{counted(count, 'message')}, 1 to {ENTRIES_MAX} allowed")
    places, wrong = _by_broker([run.receipt_handle for run in runs], group, topic)
    found = {i: [status] * len(runs[i].queue_offsets) for i, status in wrong.items()}
    for broker, numbers in places.items():
        asked = [
            link.RunPart(handle=runs[i].receipt_handle, queue_offsets=runs[i].queue_offsets)
            for i in numbers
        ]
        answers: Iterator[v2.Status]
        try:
            answers = iter(await ask(ctx if len(places) == 1 else None, broker, asked))
        except PopMQError as error:  # of this broker alone
            answers = repeat(status_of(error))
        for i in numbers:
            found[i] = list(islice(answers, len(runs[i].queue_offsets)))
    status = common([status for i in range(len(runs)) for status in found[i]])
    if status.code == v2.OK:
        return status, []
    return status, [
        consumer.RunRefusal(run=i, queue_offset=offset, status=status)
        for i, run in enumerate(runs)
        for offset, status in zip(run.queue_offsets, found[i], strict=True)
        if status.code != v2.OK
    ]


def still_held(outcome: "link.LeaseOutcome.ValueType") -> v2.Status:
    """What a change of the lease is told: of what is acked nothing is left to change."""
    if outcome == link.LEASE_OUTCOME_ALREADY_ACKED:
        return status_of(InvalidReceiptHandle(reason="the message has been acknowledged"))
    return lease_status(outcome)


def lease_status(outcome: "link.LeaseOutcome.ValueType") -> v2.Status:
    if outcome == link.LEASE_OUTCOME_DONE:
        return OK
    if outcome == link.LEASE_OUTCOME_ALREADY_ACKED:
        return ok("already acked")
    return status_of(InvalidReceiptHandle(reason=_REFUSALS[outcome]))


def runs_not_served(broker: str) -> v2.Status:
    """An older broker passes over runs, so that outcomes are missing."""
    return status_of(NotServed(what=f"leases by runs at {broker}"))
