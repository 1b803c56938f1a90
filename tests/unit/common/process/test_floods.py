"""What is a flood, and what happens to memory while there is one and afterwards."""

from itertools import chain

import pytest

from popmq_common.process import floods
from popmq_common.process.floods import AGAIN_TICKS, FloodMemory, Floods


def floods_in(counts: list[int]) -> list[bool]:
    """At each tick: whether one begins there, or goes on."""
    floods, told, is_on = Floods(64, 4), [], False
    for count in counts:
        is_on = is_on or floods.begins(count)
        floods.pass_tick(count)
        is_on = is_on and not floods.is_over
        told.append(is_on)
    return told


def test_a_flood_lasts_until_it_has_been_quiet_for_a_while() -> None:
    told = floods_in([3] * 5 + [20_000] * 8 + [1_000, 3, 3, 3, 3, 3])
    assert told == [False] * 5 + [True] * 12 + [False] * 2


def test_each_of_several_floods_is_one() -> None:
    """They are not what is usual, though there are many."""
    told = floods_in([*chain.from_iterable([3] * 20 + [20_000] * 12 for _ in range(5))])
    assert [told[32 * number + 20] for number in range(5)] == [True] * 5


@pytest.mark.parametrize("count", [60, 1_000, 20_000])
def test_what_stays_becomes_usual(count: int) -> None:
    """Ten thousand clients that stay are no flood, ten minutes later."""
    assert not floods_in([count] * 1_200)[-1]


def test_slow_growth_is_no_flood() -> None:
    assert not any(floods_in([number // 4 for number in range(20_000)]))


def test_objects_come_from_the_c_library_during_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """And memory is given back when it is over, and twice more."""
    under_way, tick, given_back_at = [0], 0, list[int]()
    memory = FloodMemory(lambda: under_way[0])
    monkeypatch.setattr(floods, "give_back", lambda: given_back_at.append(tick))
    is_of_c = []
    for tick in range(140):
        if tick == 5:
            for under_way[0] in range(1, 5_001):
                memory.begin_call()
        if tick == 10:
            under_way[0] = 2
        memory.pass_tick(under_way[0])
        is_of_c.append(memory._object_memory.is_of_c)
    memory.close()
    assert not any(is_of_c[:5])
    assert all(is_of_c[5:29])
    assert not any(is_of_c[30:])
    assert given_back_at == [10, *(10 + ticks for ticks in AGAIN_TICKS)]


def test_two_servers_of_a_process_leave_its_own_allocator_in_place() -> None:
    counts = {"left": 0, "right": 0}
    left, right = FloodMemory(lambda: counts["left"]), FloodMemory(lambda: counts["right"])
    for name, memory in (("left", left), ("right", right)):
        counts[name] = 10_000
        for _ in range(64):
            memory.begin_call()
    left.close()
    right.close()
    another = FloodMemory(lambda: 10_000)
    for _ in range(64):
        another.begin_call()
    assert another._object_memory.is_of_c
    another.close()
    assert not another._object_memory.is_of_c
