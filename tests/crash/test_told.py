"""Each promise of the campaign's book can be broken, and is seen; what is right is not."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crash.record import Record
from crash.told import PRICE_S, SETTLED_S, Told

from apache.rocketmq.v2 import definition_pb2 as v2


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    with closing(Record(tmp_path / "told")) as record:
        yield Told(record)


def come(told: Told, body: str, at: float, *, invoked: float | None = None) -> None:
    """Wall clock and monotonic clock are the same here."""
    told.delivered(body, at if invoked is None else invoked, at, int(at * 1000))


def send(told: Told, body: str = "a") -> None:
    told.sending(body)
    told.sent(body, 1.0)


def delay(told: Told, body: str = "a", due: float = 5.0) -> None:
    told.delaying(body, int(due * 1000))
    told.delayed(body, due)


def begin(told: Told, *, commit: bool, held_until: float = 0.0, body: str = "a") -> None:
    told.deciding(body, commit=commit, held_until=held_until)
    told.half(body, 1.0)


def settle(told: Told, body: str = "a") -> None:
    told.settling(body)
    told.settled(body, 2.0)


def commit(told: Told) -> None:
    begin(told, commit=True)
    settle(told)


def restart(told: Told, at: float, *, in_memory: bool = False) -> None:
    told.begin_life(killed=at, began=at + 0.1, in_memory=in_memory)


def nobody_sent_it(told: Told) -> None:
    come(told, "a", 2.0)


def after_its_ack(told: Told) -> None:
    send(told)
    come(told, "a", 2.0)
    told.acked("a", 2.1, 2.2)
    restart(told, 2.3)
    come(told, "a", 2.9, invoked=2.5)


def after_an_ack_in_memory_that_was_safe(told: Told) -> None:
    send(told)
    restart(told, 1.0, in_memory=True)
    come(told, "a", 2.0)
    told.acked("a", 2.1, 2.2)
    restart(told, 2.3 + PRICE_S, in_memory=True)
    come(told, "a", 9.0)


def before_its_time_after_a_change(told: Told) -> None:
    send(told)
    come(told, "a", 2.0)
    told.hidden("changed", "a", 5.0)
    come(told, "a", 4.0)


def before_it_was_due(told: Told) -> None:
    delay(told)
    come(told, "a", 4.999)


def after_its_recall(told: Told) -> None:
    delay(told)
    told.recalling("a")
    told.recalled("a")
    come(told, "a", 6.0)


def recalled_after_it_had_come(told: Told) -> None:
    delay(told)
    told.recalling("a")
    come(told, "a", 5.5)
    told.recalled("a")


def unknown_before_its_time(told: Told) -> None:
    delay(told)
    told.recalling("a")
    told.recall_refused("a", v2.MESSAGE_NOT_FOUND, 3.0, 3_000)


def before_its_commit(told: Told) -> None:
    begin(told, commit=True)
    come(told, "a", 2.0)


def rolled_back_and_came(told: Told) -> None:
    begin(told, commit=False)
    settle(told)
    come(told, "a", 3.0)


def its_half_message_is_gone(told: Told) -> None:
    begin(told, commit=True)
    told.settling("a")
    told.settle_refused("a", v2.INVALID_TRANSACTION_ID)


def asked_about_long_after(told: Told) -> None:
    begin(told, commit=False)
    settle(told)
    assert told.asked("a", 2.1) is None
    told.asked("a", 2.1 + SETTLED_S)


def asked_about_and_never_begun(told: Told) -> None:
    told.asked("a", 2.0)


BREACHES: list[Callable[[Told], None]] = [
    nobody_sent_it,
    after_its_ack,
    after_an_ack_in_memory_that_was_safe,
    before_its_time_after_a_change,
    before_it_was_due,
    after_its_recall,
    recalled_after_it_had_come,
    unknown_before_its_time,
    before_its_commit,
    rolled_back_and_came,
    its_half_message_is_gone,
    asked_about_long_after,
    asked_about_and_never_begun,
]


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__)
def test_a_broken_promise_is_seen(told: Told, breach: Callable[[Told], None]) -> None:
    breach(told)
    assert len(told.undone) == 1, told.undone
    with pytest.raises(AssertionError, match="1 undone"):
        told.check()


LOST: dict[str, Callable[[Told], None]] = {
    "sent": send,
    "delayed": delay,
    "committed by its producer": commit,
    "left to the check": lambda told: begin(told, commit=True),
}


@pytest.mark.parametrize("kind", LOST)
def test_what_never_comes_is_lost(told: Told, kind: str) -> None:
    LOST[kind](told)
    assert list(told.waiting) == ["a"]
    with pytest.raises(AssertionError, match="1 lost"):
        told.check()


@pytest.mark.parametrize("code", [None, v2.INVALID_RECEIPT_HANDLE])
def test_what_nobody_acked_and_does_not_come_again_is_lost(told: Told, code: int | None) -> None:
    send(told)
    come(told, "a", 2.0)
    if code is not None:
        told.not_acked("a", code)
    with pytest.raises(AssertionError, match="1 lost after"):
        told.check()
    come(told, "a", 4.0)
    told.acked("a", 4.1, 4.2)
    told.check()


def test_an_ack_without_an_answer_may_be_done(told: Told) -> None:
    for body, code in (("a", None), ("b", v2.PROXY_TIMEOUT)):
        send(told, body)
        come(told, body, 2.0)
        told.not_acked(body, code)
    told.check()


def test_a_recall_that_was_refused_promises_that_it_comes(told: Told) -> None:
    delay(told)
    told.recalling("a")
    told.recall_refused("a", v2.BAD_REQUEST, 5.0, 5_000)
    assert told.lost() == {"a"}


def test_what_is_right_is_not_held_against_anybody(told: Told) -> None:
    send(told)
    come(told, "a", 2.0)
    come(told, "a", 3.0)  # nobody has acked it
    told.acked("a", 3.1, 3.3)
    come(told, "a", 3.4, invoked=3.2)  # this receive began before its ack was answered
    delay(told, "b")
    come(told, "b", 5.0)
    told.hidden("nacked", "b", 8.0)
    come(told, "b", 8.0)
    told.acked("b", 8.1, 8.2)
    begin(told, commit=True, held_until=3.0, body="c")
    assert told.asked("c", 2.9) is None
    assert told.asked("c", 3.1)
    come(told, "c", 3.2)
    told.acked("c", 3.3, 3.4)
    begin(told, commit=False, body="d")
    assert told.asked("d", 3.1) is False
    told.check()


def test_what_has_an_unknown_outcome_may_come_or_not(told: Told) -> None:
    for body in "ab":
        told.sending(body)
    delay(told, "c")
    delay(told, "d")
    for body in "cd":
        told.recalling(body)
        told.recall_refused(body, v2.PROXY_TIMEOUT, 3.0, 3_000)
    told.deciding("e", commit=True, held_until=0.0)
    assert not told.waiting
    come(told, "a", 2.0)
    come(told, "c", 5.0)
    for body in "ac":
        told.acked(body, 5.1, 5.2)
    told.check()


def test_a_crash_may_undo_an_ack_in_memory(told: Told) -> None:
    for body in "abc":
        send(told, body)
    restart(told, 1.0, in_memory=True)
    for body in "abc":
        come(told, body, 2.0)
    told.acked("a", 2.1, 2.2)
    told.acked("b", 2.2, 2.6)  # the broker is killed meanwhile
    restart(told, 2.5)
    told.acked("c", 2.4, 2.7)  # who has answered?
    for body in "abc":
        come(told, body, 3.0)
        told.acked(body, 3.1, 3.2)
    restart(told, 3.3)
    told.check()
    for body in "abc":
        come(told, body, 4.0)
    assert len(told.undone) == 3, "these were on disk"
