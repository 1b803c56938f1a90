"""Which sends of a proxy with several brokers leave together?"""

import asyncio

import pytest
from harness.gathering import gathering_until

from popmq_proxy.core.routing.gathering import Gathering


class Link:
    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.hurried = 0

    def hurry(self) -> None:
        self.hurried += 1


@pytest.fixture
async def gathering() -> Gathering:
    return gathering_until(under_way=3)


async def test_sends_go_where_others_wait(gathering: Gathering) -> None:
    a, b = Link("a"), Link("b")
    now_s = asyncio.get_running_loop().time() + 10
    assert gathering.place(now_s) == ""
    wait_s = gathering.begin(a, now_s)
    assert gathering.place(now_s) == "a"
    gathering.begin(b, now_s)  # of a message group, whose broker is given
    assert gathering.place(now_s + wait_s - 0.001) == "a"
    assert gathering.place(now_s + wait_s) == "", "they have left"


async def test_the_last_of_all_takes_along_what_waits_at_any_broker(gathering: Gathering) -> None:
    a, b = Link("a"), Link("b")
    now_s = asyncio.get_running_loop().time() + 10
    assert gathering.begin(a, now_s)
    assert gathering.begin(b, now_s)
    assert (a.hurried, b.hurried) == (0, 0)
    assert gathering.begin(b, now_s) == 0.0
    assert (a.hurried, b.hurried) == (1, 1)
    assert gathering.place(now_s) == ""


async def test_what_has_its_answer_is_under_way_no_longer(gathering: Gathering) -> None:
    a = Link("a")
    now_s = asyncio.get_running_loop().time() + 10
    gathering.begin(a, now_s)
    gathering.begin(a, now_s)
    gathering.end(2)
    assert gathering.begin(a, now_s), "one is under way, there were three"
    assert a.hurried == 0
