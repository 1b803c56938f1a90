"""What pops gave: by runs, of a broker that knows none too, and the handles to give it back by."""

from popmq_common.records import receipt
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.popped import by_runs, gave, handles_of, held_run

FIRST = receipt.Receipt(3, 1_000, 60_000, 0, 0, "b", 2, 3, 40, 1)
HANDLES = receipt.encode_all(FIRST, [(3, 40), (5, 90)], "g", "t")


def singles() -> link.PopReply:
    reply = link.PopReply()
    reply.messages.add(handle=HANDLES[0], record=b"a")
    reply.messages.add(handle=HANDLES[1], record=b"b", delivery_attempt=4)
    return reply


def test_messages_of_an_older_broker_become_runs() -> None:
    runs = by_runs(singles()).runs
    assert [(run.handle, list(run.records)) for run in runs] == [
        (HANDLES[0], [b"a"]),
        (HANDLES[1], [b"b"]),
    ]
    assert [list(run.queue_offsets) for run in runs] == [[3], [5]]
    assert [list(run.delivery_attempts) for run in runs] == [[], [4]]


def test_a_reply_by_runs_stays_as_it_is() -> None:
    reply = link.PopReply(runs=[link.PoppedRun(handle=HANDLES[0], records=[b"a"])])
    assert by_runs(reply) is reply


def test_something_came_or_nothing_did() -> None:
    run = link.PopReply(runs=[link.PoppedRun(handle=HANDLES[0], records=[b"a"])])
    assert [gave(reply) for reply in (singles(), run, link.PopReply())] == [True, True, False]


def test_every_message_can_be_given_back() -> None:
    run = link.PoppedRun(handle=HANDLES[0], records=[b"a", b"b"], queue_offsets=[3, 5])
    handles = handles_of([singles(), link.PopReply(runs=[run])]).each()
    assert handles[:2] == HANDLES
    assert [receipt.decode(handle).queue_offset for handle in handles] == [3, 5, 3, 5]


def test_the_sdk_reads_a_run_as_the_broker_gave_it() -> None:
    run = link.PoppedRun(
        handle=HANDLES[0], records=[b"a", b"b"], queue_offsets=[3, 5], delivery_attempts=[1, 2]
    )
    (found,) = consumer.ReceiveRecordsResponse.FromString(held_run(run)).runs
    assert found.receipt_handle == run.handle
    assert list(found.records) == [b"a", b"b"]
    assert list(found.queue_offsets) == [3, 5]
    assert list(found.delivery_attempts) == [1, 2]
