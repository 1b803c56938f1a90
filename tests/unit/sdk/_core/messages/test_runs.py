"""Which messages share a run, and where each one's place in it is."""

from dataclasses import replace

from unit.sdk.idempotence.made import message as made

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq import ReceivedMessage
from popmq._core.messages import convert
from popmq_common.records.receipt import Receipt, encode

GROUP, TOPIC = v2.Resource(name="g"), v2.Resource(name="t")
FIRST = Receipt(7, 1_700_000_000_000, 60_000, 3, 0, "broker-a", 2, 7, 4711, 1)


def held(**fields: object) -> ReceivedMessage:
    ref = FIRST._replace(**fields)  # type: ignore[arg-type]
    return replace(made(), receipt_handle=encode(ref, "g", "t"))


def test_messages_of_one_grant_share_a_run() -> None:
    others = [
        held(queue_offset=9, log_offset=9_000, broker="broker-b"),
        held(queue_offset=10, log_offset=9_900, queue_id=1),
        held(queue_offset=11, log_offset=9_999, generation=2),
        held(queue_offset=12, log_offset=10_000, start_offset=12),
    ]
    asked = [held(), others[0], held(queue_offset=8, log_offset=5_000), *others[1:]]
    made_of = convert.runs_of(asked)
    assert made_of is not None
    parts, places = made_of
    assert places == [(0, 7), (1, 9), (0, 8), (2, 10), (3, 11), (4, 12)]
    assert [list(run.queue_offsets) for run in parts] == [[7, 8], [9], [10], [11], [12]]
    assert parts[0].receipt_handle == asked[0].receipt_handle


def test_another_servers_handle_has_no_run() -> None:
    nine_fields = "7 1700000000000 60000 3 0 broker-a 2 7 4711"  # RocketMQ's
    for handle in ("h", nine_fields, ""):
        other = replace(made(), receipt_handle=handle)
        assert convert.runs_of([held(), other]) is None
