"""What every register keeps, whatever it is kept by: tests for a subclass named `Test…`, which has
a fixture `registers`."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import ClassVar

import pytest

from popmq_broker.clients.register.register import (
    TTL_S_MAX,
    VALUE_BYTES_MAX,
    Register,
    Seen,
)
from popmq_common.process.config import ConfigError

Registers = Callable[[str], Register]
"""Another one on the group of this name; the fixture closes them."""
EMPTY = Seen(None, 0, frozenset())
SWAPPERS = 20
LATE_S = 5.0
"""A wait that takes so long although there is a change has missed it; on a busy machine, too."""


class RegisterContract:
    ttl_s: ClassVar[float] = 0.3
    """Of heartbeats that are to run out."""
    lateness_s: ClassVar[float] = 0.2
    """How much longer one lasts."""

    async def test_at_first_nothing_is_there(self, registers: Registers) -> None:
        assert await registers("a").read() == EMPTY

    async def test_a_record_is_made_once(self, registers: Registers) -> None:
        one, two = registers("a"), registers("a")
        version = await one.swap(0, b"one")
        assert version
        assert await two.swap(0, b"two") is None
        assert await two.read() == Seen(b"one", version, frozenset())

    async def test_only_the_version_that_is_there_is_replaced(self, registers: Registers) -> None:
        one, two = registers("a"), registers("a")
        first = await one.swap(0, b"1")
        assert first
        second = await two.swap(first, b"2")
        assert second
        assert second != first
        for stale in (0, first, second + 1):
            assert await one.swap(stale, b"3") is None
        assert await one.read() == Seen(b"2", second, frozenset())

    async def test_a_value_from_before_has_another_version(self, registers: Registers) -> None:
        one = registers("a")
        versions = [0]
        for value in (b"1", b"2", b"1", b"1"):
            version = await one.swap(versions[-1], value)
            assert version
            versions.append(version)
        assert len(set(versions)) == len(versions)

    @pytest.mark.parametrize("value", [b"", b"\n\0\xff\n", bytes(range(256)) * 256])
    async def test_any_bytes_are_a_value(self, registers: Registers, value: bytes) -> None:
        version = await registers("a").swap(0, value)
        assert await registers("a").read() == (value, version, frozenset())

    async def test_a_value_has_a_limit(self, registers: Registers) -> None:
        with pytest.raises(ValueError, match="bytes"):
            await registers("a").swap(0, bytes(VALUE_BYTES_MAX + 1))
        assert await registers("a").read() == EMPTY

    async def test_groups_do_not_see_each_other(self, registers: Registers) -> None:
        one, other = registers("a"), registers("ab")
        assert await one.swap(0, b"one")
        await one.heartbeat("r1", 60)
        assert await other.read() == EMPTY
        assert await other.swap(0, b"other")
        assert (await one.read()).value == b"one"

    async def test_one_of_many_swaps_of_a_version_wins(self, registers: Registers) -> None:
        many = [registers("a") for _ in range(SWAPPERS)]
        version = 0
        for _ in range(3):
            answers = await asyncio.gather(
                *(one.swap(version, b"%d" % number) for number, one in enumerate(many))
            )
            (number,) = [number for number, answer in enumerate(answers) if answer is not None]
            won = answers[number]
            assert won is not None
            version = won
            assert await many[0].read() == Seen(b"%d" % number, version, frozenset())

    async def test_no_update_of_many_is_lost(self, registers: Registers) -> None:
        """Each appends its letter several times to what it reads."""
        won: list[int] = []

        async def append(letter: bytes) -> None:
            one = registers("a")
            for _ in range(3):
                version = None
                while version is None:
                    seen = await one.read()
                    version = await one.swap(seen.version, (seen.value or b"") + letter)
                won.append(version)

        letters = [b"%c" % (ord("a") + number) for number in range(SWAPPERS)]
        await asyncio.gather(*map(append, letters))
        value, version, _ = await registers("a").read()
        assert sorted(value or b"") == sorted(b"".join(letters) * 3)
        assert len(set(won)) == len(won)
        assert version == max(won)

    async def test_a_heartbeat_runs_out(self, registers: Registers) -> None:
        one, other = registers("a"), registers("a")
        await one.heartbeat("r1", self.ttl_s)
        began_s = time.monotonic()
        await one.heartbeat("r2", 60)
        both = await other.read()
        assert both == Seen(None, 0, frozenset({"r1", "r2"}))
        left = await other.wait(both, self.ttl_s + LATE_S)
        assert left.alive == {"r2"}
        took_s = time.monotonic() - began_s
        assert self.ttl_s * 0.9 <= took_s <= self.ttl_s + self.lateness_s + LATE_S / 2

    async def test_a_heartbeat_is_renewed(self, registers: Registers) -> None:
        one, other = registers("a"), registers("a")
        ttl_s = 3 * self.ttl_s
        end_s = time.monotonic() + ttl_s + self.lateness_s + self.ttl_s
        while time.monotonic() < end_s:
            await one.heartbeat("r1", ttl_s)
            assert (await other.read()).alive == {"r1"}
            await asyncio.sleep(self.ttl_s / 4)

    async def test_a_heartbeat_that_ran_out_begins_again(self, registers: Registers) -> None:
        one = registers("a")
        await one.heartbeat("r1", self.ttl_s)
        assert (await one.wait(await one.read(), self.ttl_s + LATE_S)).alive == frozenset()
        await one.heartbeat("r1", 60)
        assert (await one.read()).alive == {"r1"}

    async def test_the_newest_heartbeat_counts(self, registers: Registers) -> None:
        """A process that is started again has the same name."""
        before, now = registers("a"), registers("a")
        for _ in range(2):
            await before.heartbeat("r1", self.ttl_s)
            await now.heartbeat("r1", 60)
        await asyncio.sleep(self.ttl_s + self.lateness_s)
        assert (await now.read()).alive == {"r1"}

    async def test_who_leaves_is_gone_at_once(self, registers: Registers) -> None:
        one, other = registers("a"), registers("a")
        await one.heartbeat("r1", 60)
        await other.heartbeat("r2", 60)
        await one.leave("r1")
        assert (await other.read()).alive == {"r2"}
        await one.leave("r1")
        await one.heartbeat("r1", 60)
        assert (await other.read()).alive == {"r1", "r2"}
        await other.leave("r1")
        assert (await one.read()).alive == {"r2"}
        await one.heartbeat("r1", 60)
        assert (await one.read()).alive == {"r1", "r2"}

    async def test_heartbeats_leave_the_record_alone(self, registers: Registers) -> None:
        one = registers("a")
        version = await one.swap(0, b"1")
        assert version
        await one.heartbeat("r1", 60)
        await one.leave("r1")
        assert await one.swap(version, b"2")

    async def test_a_wait_for_what_has_changed_already(self, registers: Registers) -> None:
        one = registers("a")
        version = await one.swap(0, b"1")
        assert await one.wait(EMPTY, 60) == (b"1", version, frozenset())

    async def test_a_wait_ends_at_its_timeout(self, registers: Registers) -> None:
        one = registers("a")
        await one.swap(0, b"1")
        await one.heartbeat("r1", 60)
        seen = await one.read()
        for timeout_s in (0.0, 0.2):
            began_s = time.monotonic()
            assert await one.wait(seen, timeout_s) == seen
            assert timeout_s <= time.monotonic() - began_s <= timeout_s + LATE_S

    async def test_each_kind_of_change_wakes(self, registers: Registers) -> None:
        one, other = registers("a"), registers("a")
        seen = EMPTY
        changes: list[Callable[[], object]] = [
            lambda: one.swap(0, b"1"),
            lambda: one.heartbeat("r1", 60),
            lambda: one.swap(seen.version, b"2"),
            lambda: one.leave("r1"),
        ]
        for change in changes:
            waiting = asyncio.ensure_future(other.wait(seen, 60))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            began_s = time.monotonic()
            await change()  # type: ignore[misc]
            now = await waiting
            assert time.monotonic() - began_s < LATE_S
            assert now == await one.read() != seen
            seen = now

    async def test_no_wait_misses_a_change(self, registers: Registers) -> None:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        one = registers("a")

        async def follow() -> None:
            follower = registers("a")
            seen = EMPTY
            while seen.value != b"last":
                began_s = time.monotonic()
                now = await follower.wait(seen, 60)
                assert time.monotonic() - began_s < LATE_S, (seen, now)
                assert now != seen
                assert now.version >= seen.version
                seen = now

        followers = [asyncio.ensure_future(follow()) for _ in range(3)]
        version = 0
        for number in range(50):
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() * 0.02)
            answer = await one.swap(version, b"last" if number == 49 else b"%d" % number)
            assert answer
            version = answer
        await asyncio.gather(*followers)

    @pytest.mark.parametrize("ttl_s", [0.0, -1.0, TTL_S_MAX + 1, float("nan")])
    async def test_how_long_a_heartbeat_lasts(self, registers: Registers, ttl_s: float) -> None:
        with pytest.raises(ValueError, match="heartbeat"):
            await registers("a").heartbeat("r1", ttl_s)

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "\u00e4", "x" * 128])
    async def test_names_that_are_none(self, registers: Registers, name: str) -> None:
        with pytest.raises(ConfigError, match="replica"):
            await registers("a").heartbeat(name, 1)
        with pytest.raises(ConfigError, match="replica"):
            await registers("a").leave(name)
