"""Does a folder keep a register, also when processes die, stop, or find damage?"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.register_contract import RegisterContract, Registers

from popmq_broker.clients.register.file_register import HEAD, FileRegister, boot_ns
from popmq_broker.clients.register.register import CALL_S, TTL_S_MAX, Seen
from popmq_common.errors import RegisterUnreachable

SWAPS = """
import asyncio, sys
from pathlib import Path
from popmq_broker.clients.register.file_register import FileRegister

async def swaps():
    one = FileRegister(Path(sys.argv[1]))
    while True:
        seen = await one.read()
        number = seen.version + 1
        if await one.swap(seen.version, b"%d " % number * 500):
            print(number, flush=True)

asyncio.run(swaps())
"""
"""Prints each version after it was answered."""
HOLDS = """
import fcntl, sys, time
lock = open(sys.argv[1], "ab")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


class TestFileRegister(RegisterContract):
    @pytest.fixture
    def registers(self, tmp_path: Path) -> Registers:
        return lambda group: FileRegister(tmp_path / group)


@contextmanager
def python(program: str, argument: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Killed at the end."""
    command = [sys.executable, "-c", program, str(argument)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


async def test_a_process_that_is_killed_leaves_a_whole_record(tmp_path: Path) -> None:
    """What it was answered is there, and the lock is free."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    one = FileRegister(tmp_path / "a")
    for _ in range(5):
        with python(SWAPS, tmp_path / "a") as process:
            told = [first_line(process)]
            await asyncio.sleep(chance.random() * 0.05)
            process.kill()
            assert process.stdout is not None
            told += process.stdout.read().splitlines(keepends=True)
        answered = max(int(line) for line in told if line.endswith(b"\n"))
        value, version, _ = await one.read()
        assert version in (answered, answered + 1)
        assert value == b"%d " % version * 500


async def test_processes_swap_against_each_other(tmp_path: Path) -> None:
    """Of each version one of them is told that it was its own."""
    with python(SWAPS, tmp_path) as one, python(SWAPS, tmp_path) as two:
        both = [one, two]
        for process in both:
            first_line(process)
        await asyncio.sleep(0.5)
        for process in both:
            process.send_signal(signal.SIGSTOP)
        for process in both:
            process.kill()
        told = [p.stdout.read().split(b"\n")[:-1] for p in both if p.stdout is not None]
    assert all(told)
    assert not set(told[0]) & set(told[1])


async def test_a_stopped_process_with_the_lock_holds_up_no_call_for_long(tmp_path: Path) -> None:
    one = FileRegister(tmp_path)
    with python(HOLDS, tmp_path / "lock") as process:
        assert first_line(process) == b"held\n"
        process.send_signal(signal.SIGSTOP)
        began_s = time.monotonic()
        calls = one.read(), one.swap(0, b"1")
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(answer, RegisterUnreachable)
            assert "another process holds its lock" in str(answer)
        assert time.monotonic() - began_s < CALL_S + 1
        await one.heartbeat("r1", 60)
    assert await one.read() == Seen(None, 0, frozenset({"r1"}))


async def test_a_call_that_was_given_up_changes_nothing_later(tmp_path: Path) -> None:
    one = FileRegister(tmp_path)
    with python(HOLDS, tmp_path / "lock") as process:
        first_line(process)
        with pytest.raises(RegisterUnreachable):
            await one.swap(0, b"late")
    await asyncio.sleep(0.1)
    assert (await one.read()).value is None


@pytest.mark.parametrize("content", [b"", HEAD[:5], HEAD, HEAD + b"x\nvalue", b"\0" * 100])
async def test_a_damaged_record_is_told(tmp_path: Path, content: bytes) -> None:
    one = FileRegister(tmp_path)
    (tmp_path / "record").write_bytes(content)
    for call in (one.read(), one.swap(0, b"1"), one.wait(Seen(None, 0, frozenset()), 60)):
        with pytest.raises(RegisterUnreachable, match="record is damaged"):
            await call
    assert (tmp_path / "record").read_bytes() == content


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    one = FileRegister(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    for call in (one.read(), one.swap(0, b"1"), one.heartbeat("r1", 1)):
        with pytest.raises(RegisterUnreachable, match="No such file"):
            await call


async def test_half_a_write_of_before_is_replaced(tmp_path: Path) -> None:
    one = FileRegister(tmp_path)
    (tmp_path / ".record").write_bytes(b"x" * 1_000)
    assert await one.swap(0, b"1") == 1
    assert (await one.read()).value == b"1"


async def test_a_heartbeat_lasts_to_the_nanosecond(tmp_path: Path) -> None:
    now_ns = 5_000_000_000
    one = FileRegister(tmp_path, lambda: now_ns)
    await one.heartbeat("r1", 2)
    now_ns += 1_999_999_999
    assert (await one.read()).alive == {"r1"}
    now_ns += 1
    assert (await one.read()).alive == frozenset()


def another_boot(text: str) -> str:
    return "0" + text[1:] if text[0] != "0" else "1" + text[1:]


def long_after_a_restart(text: str) -> str:
    """As if the clock had begun anew on a system without a boot id."""
    return f"{text.split()[0]} {boot_ns() + int(TTL_S_MAX + 100) * 1_000_000_000}"


@pytest.mark.parametrize(
    "changed", [another_boot, long_after_a_restart, lambda _: "", lambda _: "x y"]
)
async def test_a_heartbeat_of_another_clock_does_not_count(
    tmp_path: Path, changed: Callable[[str], str]
) -> None:
    one = FileRegister(tmp_path)
    await one.heartbeat("r1", 60)
    path = tmp_path / "alive" / "r1"
    path.write_text(changed(path.read_text()))
    assert (await one.read()).alive == frozenset()
    await one.heartbeat("r1", 60)
    assert (await one.read()).alive == {"r1"}


async def test_files_are_for_one_user_alone(tmp_path: Path) -> None:
    one = FileRegister(tmp_path / "a")
    await one.swap(0, b"1")
    await one.heartbeat("r1", 60)
    found = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert {path.name for path in found} == {"record", "lock", "r1"}
    assert {os.stat(path).st_mode & 0o777 for path in found} == {0o600}
