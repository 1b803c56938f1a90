"""A follower: what it does after the hello, which bytes it takes, what it shows."""

from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_broker.core.replication.follower import Following, GoOn, Shipment, start_of
from popmq_common.errors import BadRequest, ReplicaDiverged, StaleEpoch

FIRST, SECOND = EpochStart(1, 0), EpochStart(3, 100)


@pytest.mark.parametrize(
    ("split", "log_end", "log_start", "shown_end", "counted", "expected"),
    [
        (100, 100, 0, 100, True, (GoOn.AS_IT_IS, 100)),
        (100, 100, 0, 0, False, (GoOn.AS_IT_IS, 100)),
        (80, 100, 0, 80, True, (GoOn.CUT, 80)),
        (80, 100, 0, 0, False, (GoOn.CUT, 80)),
        (80, 100, 80, 80, True, (GoOn.CUT, 80)),
        (0, 0, 0, 0, False, (GoOn.AS_IT_IS, 0)),
        (0, 0, 0, 0, True, (GoOn.AS_IT_IS, 0)),
        (0, 0, 500, 0, False, (GoOn.ANEW, 500)),
        (None, 100, 0, 100, False, (GoOn.ANEW, 0)),
        (None, 100, 500, 100, False, (GoOn.ANEW, 500)),
        (100, 100, 500, 100, False, (GoOn.ANEW, 500)),
    ],
)
def test_what_it_does_after_the_hello(
    split: int | None,
    log_end: int,
    log_start: int,
    shown_end: int,
    counted: bool,
    expected: tuple[GoOn, int],
) -> None:
    done = start_of(
        split=split,
        log_end=log_end,
        primary_log_start=log_start,
        shown_end=shown_end,
        counted=counted,
    )
    assert done == expected


@pytest.mark.parametrize(
    ("split", "log_end", "log_start", "shown_end", "counted"),
    [
        (79, 100, 0, 80, True),
        (79, 100, 0, 80, False),  # shown is committed, whoever is counted now
        (None, 100, 0, 0, True),
        (100, 100, 500, 100, True),
        (0, 0, 500, 0, True),  # counted, and its log is gone
    ],
)
def test_when_it_touches_nothing(
    split: int | None, log_end: int, log_start: int, shown_end: int, counted: bool
) -> None:
    with pytest.raises(ReplicaDiverged):
        start_of(
            split=split,
            log_end=log_end,
            primary_log_start=log_start,
            shown_end=shown_end,
            counted=counted,
        )


def following(log_end: int = 100, durable_end: int = 60) -> Following:
    return Following(Epochs(4, (FIRST,)), 4, log_end, durable_end)


def shipment(data: bytes = b"record", **changes: Any) -> Shipment:
    made = Shipment(epoch=4, at=100, data=data, crc=crc32(data), data_epoch=FIRST, commit_point=50)
    return replace(made, **changes)


def test_bytes_at_its_end_are_taken() -> None:
    one = following()
    assert one.check(shipment()) is None
    one.written(shipment())
    assert one.log_end == 106


def test_a_shipment_without_bytes_tells_the_commit_point_alone() -> None:
    assert following().check(shipment(b"", at=7, data_epoch=SECOND)) is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epoch": 3}, StaleEpoch),
        ({"epoch": 5}, StaleEpoch),
        ({"at": 99}, BadRequest),
        ({"at": 101}, BadRequest),
        ({"crc": 1}, BadRequest),
        ({"data_epoch": EpochStart(1, 5)}, BadRequest),
        ({"data_epoch": EpochStart(3, 90)}, BadRequest),
        ({"data_epoch": EpochStart(3, 101)}, BadRequest),
        ({"data_epoch": EpochStart(0, 100)}, BadRequest),
        ({"data_epoch": EpochStart(1, 100)}, BadRequest),
    ],
)
def test_bytes_that_do_not_belong_here_are_refused(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        following().check(shipment(**changes))


def test_bytes_of_an_older_epoch_are_refused() -> None:
    one = Following(Epochs(4, (FIRST, SECOND)), 4, 120, 120)
    with pytest.raises(BadRequest):
        one.check(shipment(at=120, data_epoch=FIRST))
    assert one.check(shipment(at=120, data_epoch=SECOND)) is None


def test_an_epoch_begins_with_its_first_bytes() -> None:
    one = following()
    begins = one.check(shipment(data_epoch=SECOND))
    assert begins == SECOND
    assert one.begin(SECOND) == Epochs(4, (FIRST, SECOND)) == one.epochs
    assert one.check(shipment(data_epoch=SECOND)) is None


def test_an_epoch_of_which_no_byte_came_is_forgotten_before_others_come() -> None:
    """Its primary died; the next one has more of the epoch before."""
    one = Following(Epochs(4, (FIRST, SECOND)), 4, 100, 100)
    begins = one.check(shipment())
    assert begins == FIRST
    assert one.begin(begins) == Epochs(4, (FIRST,))
    assert one.check(shipment()) is None


def test_an_epoch_without_bytes_makes_room_for_the_next() -> None:
    one = following()
    one.begin(SECOND)
    assert one.begin(EpochStart(4, 100)).starts == (FIRST, EpochStart(4, 100))


def test_a_follower_that_begins_anew_takes_the_middle_of_an_epoch() -> None:
    """The primary has deleted the epoch's beginning."""
    one = Following(Epochs(4), 4, 500, 500)
    middle = shipment(at=500, data_epoch=SECOND)
    assert one.check(middle) == SECOND
    with pytest.raises(BadRequest):
        one.check(shipment(at=500, data_epoch=EpochStart(3, 501)))
    one.begin(SECOND)
    one.written(middle)
    assert one.check(shipment(at=506, data_epoch=EpochStart(4, 506))) == EpochStart(4, 506)


def test_only_a_promised_epoch_is_followed() -> None:
    with pytest.raises(AssertionError):
        Following(Epochs(4), 5, 0, 0)


def test_it_shows_what_it_has_on_disk_and_is_committed() -> None:
    one = following(log_end=100, durable_end=60)
    shown = [one.commit_point]
    for told, synced in ((50, 60), (90, 60), (80, 70), (95, 100), (120, 100)):
        one.told(told)
        one.synced(synced)
        shown.append(one.commit_point)
    assert shown == [0, 50, 60, 70, 95, 100]


def test_what_it_shows_never_falls() -> None:
    one = following()
    one.told(50)
    one.told(20)
    one.synced(10)
    assert (one.commit_point, one.durable_end) == (50, 60)
