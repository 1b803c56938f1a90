"""Whether the chaos campaign sees what is lost and what is redelivered, and blames whom it
should."""

import pytest
from sdk_chaos.findings import Findings, Handled, Row, Sent, Strike, found, table

STRIKES = [Strike("consumer", 10.0, 12.0), Strike("broker", 20.0, 23.0)]
SENT = [Sent(0, 1.0, 1.1), Sent(1, 10.5, 10.6), Sent(2, 19.9, 23.2), Sent(3, 30.0, 30.1)]


def handled(number: int, at_s: float, attempt: int = 1, place: str = "a/0/0") -> Handled:
    return Handled(number, at_s, attempt, f"id-{number}", place, 7)


ALL = [handled(0, 1.2), handled(1, 10.7), handled(2, 23.4), handled(3, 30.2)]


def rows(handled: list[Handled]) -> tuple[Findings, dict[str, Row]]:
    findings = found("kill", 4, STRIKES, SENT, handled)
    return findings, {row.target: row for row in findings.rows}


def test_nothing_lost_nothing_again() -> None:
    findings, by_target = rows(ALL)
    assert (findings.lost, findings.again, findings.sent) == ([], [], 4)
    assert {name: row.sent for name, row in by_target.items()} == {
        "none": 1,
        "consumer": 1,
        "broker": 2,
    }
    assert by_target["broker"].slowest_s == pytest.approx(3.5)
    assert by_target["consumer"].pauses_s == [pytest.approx(12.7)]
    assert by_target["broker"].pauses_s == [pytest.approx(6.8)]


def test_a_lost_message_is_told_by_number_and_strike() -> None:
    findings, by_target = rows(ALL[:2] + ALL[3:])
    assert findings.lost == [2]
    assert (by_target["broker"].lost, by_target["consumer"].lost) == (1, 0)


@pytest.mark.parametrize(
    ("first_s", "target"), [(9.9, "consumer"), (11.0, "consumer"), (12.1, "broker"), (24, "none")]
)
def test_a_repeated_delivery_is_counted_with_what_explains_it(first_s: float, target: str) -> None:
    again = [handled(1, first_s), handled(1, 26.0, attempt=2, place="a/1/9")]
    findings, by_target = rows([ALL[0], *again, *ALL[2:]])
    assert findings.again == [1]
    assert by_target[target].delivered_again == 1
    assert sum(row.again for row in by_target.values()) == 1


def test_a_message_that_is_there_twice_is_counted_with_what_held_up_its_send() -> None:
    findings, by_target = rows([*ALL, handled(2, 23.5, place="b/3/1")])
    assert (by_target["broker"].stored_twice, by_target["broker"].delivered_again) == (1, 0)
    assert "| kill -9 | broker | 1 | 2 | 0 | 0 | 1 | yes |" in table([findings])


def test_a_line_is_read_as_it_was_written() -> None:
    one = handled(5, 12.25, 3, "broker-a/2/77")
    assert Handled.read(one.line()) == one
