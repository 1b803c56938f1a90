"""How long nobody was served: is it counted for the right fault?"""

import pytest
from torture.history import Call, Fault, History, Stored
from torture.outages import AFTER_S, longest, outages


def answered(line: str, *times_s: float) -> list[Call]:
    return [
        Call(kind="sdk", name="send", began_s=at_s, ended_s=at_s, body=f"sdk/{line}/{number}")
        for number, at_s in enumerate(times_s)
    ]


def fault(name: str, began_s: float, healed_s: float, broker: str = "broker-a") -> Fault:
    return Fault(
        name=name,
        target="proxy-1",
        role="primary" if broker else "",
        broker=broker,
        began_s=began_s,
        healed_s=healed_s,
    )


def found(calls: list[Call], *faults: Fault) -> dict[tuple[str, bool], tuple[float, ...]]:
    history = History(calls=calls, faults=list(faults))
    return {(one.fault, one.alone): one.times_s for one in outages(history)}


@pytest.mark.parametrize(
    ("times_s", "interval"),
    [
        ([1, 2, 3, 4], (2, 3)),
        ([1, 5, 6], (1.5, 5)),
        ([1, 2, 9], (2, 9)),
        ([1], (1.5, 4)),
        ([9], (1.5, 9)),
    ],
)
def test_the_longest_time_without_an_answer(
    times_s: list[float], interval: tuple[float, float]
) -> None:
    """From 1.5 to 4; one that goes on then counts to its end."""
    assert longest(times_s, 1.5, 4) == interval


def test_an_outage_counts_from_the_fault_on() -> None:
    calls = answered("p0", 1, 9, 12, 13)
    assert found(calls, fault("kill", 8.5, 10)) == {("kill of primary", True): (3,)}


def test_an_outage_longer_after_the_fault_is_none_of_it() -> None:
    late = 10 + AFTER_S
    calls = answered("p0", *range(1, int(late) + 1), late + 60)
    ((_, times_s),) = found(calls, fault("kill", 8.5, 10)).items()
    assert times_s == (60,), "it began before the end"
    calls = answered("p0", *range(1, int(late) + 2), late + 60)
    ((_, times_s),) = found(calls, fault("kill", 8.5, 10)).items()
    assert times_s == (1,)


def test_faults_at_the_same_time_are_told_apart_from_those_alone() -> None:
    """An outage that was over when the next fault began is of one alone."""
    calls = answered("p0", *range(60))
    kill, stop = fault("kill", 10, 12), fault("stop", 40, 41)
    proxy = fault("pause", 9, 11, broker="")
    assert set(found(calls, kill, stop, proxy)) == {
        ("kill of primary", False),
        ("stop of primary", True),
        ("pause of proxy", True),
    }


def test_each_broker_has_its_probes() -> None:
    calls = [*answered("p0", *range(20)), *answered("p1", 1, 2, 15)]
    stored = [
        Stored(
            broker=broker,
            topic="t",
            queue_id=0,
            queue_offset=0,
            body=f"sdk/{line}/0",
            message_id="",
        )
        for broker, line in (("broker-a", "p0"), ("broker-b", "p1"))
    ]
    kills = [fault("kill", 5.0, 6, broker) for broker in ("broker-a", "broker-b")]
    history = History(calls=calls, faults=kills, stored=stored)
    (one,) = outages(history)
    assert one.times_s == (1, 10)
    assert (one.quantile(0.5), one.quantile(0.99)) == (10, 10)


def test_receives_are_counted_for_themselves() -> None:
    """By the broker of each message."""
    received = [
        Call(
            kind="sdk",
            name="receive",
            began_s=at_s,
            ended_s=at_s,
            body=f"sdk/n0/{at_s}",
            place=f"{broker}/3",
        )
        for broker, times_s in (("broker-a", (1, 2, 6, 7)), ("broker-b", (1, 9)))
        for at_s in times_s
    ]
    calls = [*answered("p0", *range(9)), *received]
    assert found(calls, fault("kill", 3, 4)) == {
        ("kill of primary", True): (1,),
        ("kill of primary, receives", True): (3,),
    }
