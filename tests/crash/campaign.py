"""A campaign: clients at work, the broker killed again and again, then everything looked at."""

import asyncio
import random
import subprocess
import time
from contextlib import closing
from pathlib import Path

from crash.clients import GROUP, HIDDEN_S, INVISIBLE_S, TOPIC, receive, send
from crash.lives import IN_MEMORY, SETTINGS, Lives
from crash.record import Record
from crash.told import Told
from harness.processes import POPMQ, Server, cluster

SENDERS = 4
RECEIVERS = 4
ANSWER_S_MAX = 60.0
"""From a start to the first answer."""
QUIET_S = max(HIDDEN_S, *INVISIBLE_S) + 2.5
"""Without a delivery: nothing is held any more that could come again."""
QUIET_S_MAX = 40.0
"""Without a delivery: what is not there does not come any more."""
DRAIN_S_MAX = 300.0
TELL_EVERY_S = 10.0


class Campaign:
    def __init__(self, server: Server, lives: Lives, runs: int) -> None:
        self.told = lives.told
        self.lives = lives
        self._server = server
        self._runs = runs
        self._began = self._told_at = time.monotonic()

    async def run(self) -> None:
        """Until so many kills, and all that is owed has come; or something was undone."""
        stop = asyncio.Event()
        endpoint, told, rng = self._server.endpoint, self.told, self.lives.rng
        async with asyncio.TaskGroup() as tasks:
            clients = [
                *(send(endpoint, told, i, rng, stop) for i in range(SENDERS)),
                *(receive(endpoint, told, rng) for _ in range(RECEIVERS)),
            ]
            working = [tasks.create_task(client) for client in clients]
            await self._until_answered()
            while self.lives.kills < self._runs and not told.undone:
                await asyncio.sleep(self.lives.life_s())
                await self.lives.next()
                await self._until_answered()
                self._tell()
            stop.set()
            if not told.undone:
                await self._drain()
            for task in working:
                task.cancel()

    async def _until_answered(self) -> None:
        """A send was answered OK in this life."""
        before, deadline = self._sends(), time.monotonic() + ANSWER_S_MAX
        while self._sends() == before:
            if time.monotonic() > deadline:
                self.told.undone.append(f"nothing is answered {ANSWER_S_MAX} s after a start")
                return
            await asyncio.sleep(0.01)

    def _sends(self) -> int:
        return sum(self.told.record.counts[what] for what in ("sent", "delayed", "half"))

    async def _drain(self) -> None:
        """Until all that is owed has come, and then nothing any more."""
        deadline = time.monotonic() + DRAIN_S_MAX
        while time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            self._tell()
            quiet_s = time.monotonic() - self.told.last_delivery
            is_done = not self.told.waiting and not self.told.unacked
            if quiet_s > (QUIET_S if is_done else QUIET_S_MAX):
                return

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told_at < TELL_EVERY_S:
            return
        self._told_at = now
        lives, passed_s = self.lives, now - self._began
        left_s = passed_s / max(1, lives.kills) * (self._runs - lives.kills)
        oldest_s = now - min(self.told.waiting.values(), default=now)
        print(
            f"{lives.kills}/{self._runs} kills in {passed_s / 60:.1f} min, "
            f"some {left_s / 60:.1f} to go; {self.figures()}; "
            f"{len(self.told.waiting)} to come, the oldest for {max(0.0, oldest_s):.1f} s",
            flush=True,
        )

    def figures(self) -> str:
        lives, told = self.lives, self.told
        oks = ", ".join(f"{count:,} {what}" for what, count in told.record.oks().items())
        return (
            f"{lives.cut_starts} more in a start, {lives.in_memory_count} lives with acks in "
            f"memory, slowest start {lives.slowest_s:.1f} s; OK: {oks}; "
            f"{told.deliveries:,} deliveries, {told.questions:,} questions, "
            f"{told.failures:,} failed calls"
        )


def run(
    runs: int, seed: int, folder: Path, *, fault: str | None = None, in_memory: float = IN_MEMORY
) -> Told:
    """Prints what it did. Raises `AssertionError` when something was lost or undone; `folder` is
    then as it was at the last kill."""
    print(f"\nseed {seed}, {runs} kills, in {folder}", flush=True)
    began = time.monotonic()
    with closing(Record(folder / "told")) as record:
        told = Told(record)
        with cluster(folder, SETTINGS, brokers=1, proxies=1) as server:
            server.cli("topic", "create", TOPIC, "--queues", "4", "--type", "MIXED")
            server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "100000")
            broker = server.processes["broker-a"]
            lives = Lives(broker, told, random.Random(seed), fault, in_memory)
            campaign = Campaign(server, lives, runs)
            try:
                asyncio.run(campaign.run())
                told.check()
                open_ones = server.cli("transaction", "list")
                assert isinstance(open_ones, dict)
                assert open_ones["count"] == 0, f"not settled: {open_ones}"
            except BaseException:
                print(f"after {lives.kills} kills; {campaign.figures()}", flush=True)
                raise
            finally:
                lives.end()
    _check_store(folder / "broker-a")
    minutes = (time.monotonic() - began) / 60
    print(f"{runs} kills in {minutes:.1f} min, {campaign.figures()}; 0 lost, 0 undone", flush=True)
    return told


def _check_store(data_dir: Path) -> None:
    """Killed once more, it is sound."""
    command = [POPMQ, "store", "check", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
