"""What a client counted for the audit, while servers do not take it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.counts import MessageFate
from popmq.connection import count_reports
from popmq.connection.connection import Connection
from popmq.connection.count_reports import CountReporter
from popmq_consumer.v1 import consumer_pb2 as consumer

WITHIN_S = 5.0


class Answers:
    """In place of a connection: answers reports with these codes, at last always with the last."""

    def __init__(self, *codes: v2.Code.ValueType) -> None:
        self.codes = list(codes)
        self.asked: list[consumer.ReportCountsRequest] = []
        self.consumer = SimpleNamespace(ReportCounts=None)

    def resource(self, name: str) -> v2.Resource:
        return v2.Resource(name=name)

    async def ask(self, method: Any, request: consumer.ReportCountsRequest, **asked: Any) -> Any:
        del method, asked
        self.asked.append(request)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return consumer.ReportCountsResponse(status=v2.Status(code=code))


def reported(*codes: v2.Code.ValueType, within_s: float = WITHIN_S) -> list[int]:
    """The numbers of reports that left: of a first send, of a second one at the client's end."""

    async def step() -> list[int]:
        answers = Answers(*codes)
        reports = CountReporter(cast(Connection, answers))
        reports.begin()
        _count_a_send(reports)
        await reports._tell(is_last=False)
        _count_a_send(reports)
        await reports.close(within_s)
        return [request.sequence for request in answers.asked]

    return asyncio.run(step())


def _count_a_send(reports: CountReporter) -> None:
    made = reports.ids.next()
    reports.counts.drafted(made, 1)
    reports.counts.sends(MessageFate.SENT, "orders", [made])


def test_a_report_that_is_taken_is_told_once() -> None:
    assert reported(v2.OK) == [0, 1]


@pytest.mark.parametrize(
    "code",
    [
        v2.PROXY_TIMEOUT,
        v2.TOO_MANY_REQUESTS,
        v2.HA_NOT_AVAILABLE,
        v2.INTERNAL_SERVER_ERROR,
        v2.MASTER_PERSISTENCE_TIMEOUT,
    ],
)
def test_while_a_broker_is_away_reports_are_told_again(code: v2.Code.ValueType) -> None:
    assert reported(code, v2.OK) == [0, 0, 1]


def test_a_client_that_ends_tells_its_last_report_until_it_is_taken() -> None:
    assert reported(v2.OK, v2.PROXY_TIMEOUT, v2.PROXY_TIMEOUT, v2.OK) == [0, 1, 1, 1]


def test_a_client_does_not_wait_for_ever_to_be_heard_at_its_end() -> None:
    assert set(reported(v2.PROXY_TIMEOUT, within_s=0.2)) == {0}


def test_a_client_that_is_refused_tells_no_more_for_a_while() -> None:
    assert reported(v2.FORBIDDEN) == [0]


def test_what_was_refused_is_told_later_in_case_it_is_allowed_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(count_reports, "REFUSED_S", 0.0)
    assert reported(v2.FORBIDDEN, v2.OK) == [0, 0, 1]
