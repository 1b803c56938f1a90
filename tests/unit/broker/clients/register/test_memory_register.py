"""Is the register of other tests one, and do its faults do what they say?"""

import asyncio
from collections import defaultdict

import pytest
from harness.memory_register import Lost, MemoryRegister, RegisterCell
from harness.register_contract import EMPTY, RegisterContract, Registers

from popmq_common.errors import RegisterUnreachable


class TestMemoryRegister(RegisterContract):
    @pytest.fixture
    def registers(self) -> Registers:
        cells: dict[str, RegisterCell] = defaultdict(RegisterCell)
        return lambda group: MemoryRegister(cells[group])


async def test_an_answer_is_lost_after_the_swap() -> None:
    one = MemoryRegister(RegisterCell())
    one.lose_next = Lost.ANSWER
    with pytest.raises(RegisterUnreachable):
        await one.swap(0, b"1")
    assert (await one.read()).value == b"1"
    assert await one.swap(1, b"2") == 2


async def test_a_request_is_lost() -> None:
    one = MemoryRegister(RegisterCell())
    one.lose_next = Lost.REQUEST
    with pytest.raises(RegisterUnreachable):
        await one.swap(0, b"1")
    assert await one.read() == EMPTY


async def test_one_replica_is_cut_off() -> None:
    cell = RegisterCell()
    one, other = MemoryRegister(cell), MemoryRegister(cell)
    waiting = asyncio.ensure_future(one.wait(EMPTY, 60))
    await asyncio.sleep(0)
    one.reachable = False
    with pytest.raises(RegisterUnreachable):
        await waiting
    for call in (one.read(), one.swap(0, b"1"), one.heartbeat("r1", 1), one.leave("r1")):
        with pytest.raises(RegisterUnreachable):
            await call
    assert await other.swap(0, b"2") == 1
    one.reachable = True
    assert (await one.read()).value == b"2"


async def test_a_slow_register_answers_what_it_had_in_between() -> None:
    cell = RegisterCell()
    slow, fast = MemoryRegister(cell), MemoryRegister(cell)
    slow.delay_s = 0.05
    reading = asyncio.ensure_future(slow.read())
    assert await fast.swap(0, b"1") == 1
    assert (await reading).value == b"1"
