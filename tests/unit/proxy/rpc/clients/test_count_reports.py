"""ReportCounts before two brokers: what is taken, where it lies, what is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_broker.engine.inspect import count_reports
from popmq_common.records import count_report
from popmq_common.records.names import COUNTS_TOPIC
from popmq_consumer.v1 import consumer_pb2 as consumer

PREFIX = "01AABBCCDDEEFF0001"
TOPIC, GROUP = v2.Resource(name="orders"), v2.Resource(name="billing")


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[EngineDriver]]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    yield [first, second]
    second.close()
    first.close()


def request(sequence: int = 0) -> consumer.ReportCountsRequest:
    sent = consumer.CountRow(
        counted_as=consumer.COUNTED_AS_SENT,
        topic=TOPIC,
        minute_ms=60_000,
        message_count=2,
        digest=9,
    )
    acked = consumer.CountRow(
        counted_as=consumer.COUNTED_AS_ACKED,
        topic=TOPIC,
        group=GROUP,
        minute_ms=60_000,
        message_count=1,
        digest=4,
    )
    return consumer.ReportCountsRequest(
        id_prefix=PREFIX, sequence=sequence, from_ms=1, until_ms=2, rows=[sent, acked]
    )


def kept(engines: list[EngineDriver]) -> list[count_report.CountReport]:
    found = []
    for engine in engines:
        store = engine.broker.state.runtime.store
        for entry in store.entries(COUNTS_TOPIC, 0, 0, 100):
            record = store.read(entry.log_offset, entry.size_bytes)
            assert record is not None
            found.append(count_report.decode(record.body, where="a test"))
    return found


def test_a_report_lies_at_one_broker_under_stored_names(engines: list[EngineDriver]) -> None:
    proxy = ProxyDriver(*engines)
    assert proxy.call("ReportCounts", request()).status.code == v2.OK
    (report,) = kept(engines)
    assert (report.id_prefix, report.sequence) == (PREFIX, 0)
    assert [(row.counted_as.value, row.topic, row.group) for row in report.rows] == [
        ("sent", "orders", ""),
        ("acked", "orders", "billing"),
    ]


def test_a_client_reports_to_the_same_broker_again(engines: list[EngineDriver]) -> None:
    proxy = ProxyDriver(*engines)
    for sequence in range(5):
        assert proxy.call("ReportCounts", request(sequence)).status.code == v2.OK
    assert sorted(len(kept([engine])) for engine in engines) == [0, 5]


def _many_rows(asked: consumer.ReportCountsRequest) -> None:
    asked.rows.extend([asked.rows[0]] * count_report.ROWS_MAX)


def _no_kind(asked: consumer.ReportCountsRequest) -> None:
    asked.rows[0].ClearField("counted_as")


def _no_messages(asked: consumer.ReportCountsRequest) -> None:
    asked.rows[0].message_count = 0


def _large_digest(asked: consumer.ReportCountsRequest) -> None:
    asked.rows[0].digest = 1 << 63


def _short_prefix(asked: consumer.ReportCountsRequest) -> None:
    asked.id_prefix = "01"


def _negative(asked: consumer.ReportCountsRequest) -> None:
    asked.sequence = -1


@pytest.mark.parametrize(
    "spoil", [_many_rows, _no_kind, _no_messages, _large_digest, _short_prefix, _negative]
)
def test_what_is_no_report_is_refused_and_not_kept(
    engines: list[EngineDriver], spoil: Callable[[consumer.ReportCountsRequest], None]
) -> None:
    asked = request()
    spoil(asked)
    response = ProxyDriver(*engines).call("ReportCounts", asked)
    assert response.status.code == v2.BAD_REQUEST, response.status
    assert kept(engines) == []


def test_a_flood_is_refused_until_the_next_minute(
    engines: list[EngineDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_reports, "PER_MINUTE_MAX", 3)
    proxy = ProxyDriver(engines[0])
    codes = [proxy.call("ReportCounts", request(number)).status.code for number in range(5)]
    assert codes == [v2.OK] * 3 + [v2.TOO_MANY_REQUESTS] * 2
    engines[0].advance(60_000)
    assert proxy.call("ReportCounts", request(5)).status.code == v2.OK
