"""The supervisor's side of the workers: started, watched, started again, stopped in order."""

import asyncio
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from popmq_common.process.fatal import exit_on_error
from popmq_common.process.logs import Log
from popmq_common.workers.balance import (
    LOOK_S,
    BalanceRules,
    ConnectionMove,
    MovedClients,
    WorkerBalance,
)
from popmq_common.workers.channel import Channel, hand_over
from popmq_common.workers.seat import Seat
from popmq_common.workers.worker import WorkerTask

BACKOFF_S: Final = 0.5
"""From a worker's end to its next start, doubled by each start that fails."""
BACKOFF_S_MAX: Final = 10.0
DRAIN_S_MAX: Final = 15.0
END_S_MAX: Final = 60.0
"""A worker that has not stopped by then is killed; what it answered OK is on disk."""
FIGURES_S_MAX: Final = 5.0
MOVE_S_MAX: Final = 5.0
FULL_S: Final = 0.02
"""Between tries to hand over a connection while no worker takes any."""
S = TypeVar("S", bound=Seat)


class StartFailed(RuntimeError):
    """A worker did not get as far as serving."""


class RunningWorker:
    """One run of a seat's worker."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", control: Channel, connections: socket.socket
    ) -> None:
        self.process = process
        self.control = control
        self.connections = connections
        self.ready = asyncio.Event()
        self.drained = asyncio.Event()
        self.gone = asyncio.Event()
        self.failed = ""
        self.handed = 0
        self.busy = 0.0
        """Part of a core that its event loop used lately."""
        self._open = 0
        self._taken = 0
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._listening = asyncio.create_task(self._listen())
        self._ended = asyncio.Event()
        ended = partial(asyncio.get_running_loop().call_soon_threadsafe, self._ended.set)
        threading.Thread(target=_wait, args=(process, ended), daemon=True).start()

    @property
    def load(self) -> int:
        """Connections that it has, or will have when it has looked."""
        return self._open + self.handed - self._taken

    async def _listen(self) -> None:
        while (told := await self.control.next()) is not None:
            self.failed = told.get("failed", self.failed)
            self._open, self._taken = told.get("open", self._open), told.get("taken", self._taken)
            self.busy = told.get("busy", self.busy)
            for name, happened in (("ready", self.ready), ("drained", self.drained)):
                if name in told:
                    happened.set()
            for name in self._asked.keys() & told.keys():
                self._asked.pop(name).set_result(told[name])
        for asked in self._asked.values():
            asked.cancel()
        await self._ended.wait()
        self.gone.set()
        self.connections.close()
        self.control.close()

    async def ask(self, what: str, seconds_max: float, **fields: Any) -> Any:
        """Its answer, for all who ask the same at a time. Raises `TimeoutError`, also when it ends
        before."""
        answer = self._asked.get(what)
        if answer is None:
            answer = self._asked[what] = asyncio.get_running_loop().create_future()
            self.control.say(do=what, **fields)
        await asyncio.wait([answer], timeout=seconds_max)
        if not answer.done() or answer.cancelled():
            self._asked.pop(what, None)
            raise TimeoutError(f"no {what} within {seconds_max:g} s")
        return answer.result()

    def hand(self, connection: socket.socket) -> bool:
        """False: it does not take it."""
        try:
            hand_over(self.connections, connection)
        except OSError:
            return False
        self.handed += 1
        return True


class Workers(Generic[S]):
    def __init__(
        self,
        module: str,
        seats: Sequence[S],
        settings: Callable[[S], object],
        log: Log,
        log_level: str,
    ) -> None:
        """`module`: its name, which calls `run_worker` when it is run. `settings`: what this gets,
        of each seat."""
        self._module = module
        self._seats = seats
        self._settings = settings
        self._log = log
        self._log_level = log_level
        self._running: dict[S, RunningWorker] = {}
        self._keeping: list[asyncio.Task[None]] = []
        self._stopping = False
        self._moved = MovedClients()

    async def __aenter__(self) -> "Workers[S]":
        """All serve. Raises `StartFailed` when one cannot; then all are stopped."""
        try:
            async with asyncio.TaskGroup() as starting:
                for seat in self._seats:
                    starting.create_task(self._start(seat))
        except BaseExceptionGroup as failed:
            await self._stop()
            raise failed.exceptions[0] from None
        self._keeping = [asyncio.create_task(self._keep(seat)) for seat in self._seats]
        for task in self._keeping:
            task.add_done_callback(partial(exit_on_error, self._log, "server.failed"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _start(self, seat: S) -> None:
        """Raises `StartFailed`."""
        settings = self._settings(seat)  # which may be wrong: then no process is begun
        control, its_control = socket.socketpair()
        connections, its_connections = socket.socketpair()
        connections.setblocking(False)
        with its_control, its_connections:
            fds = its_control.fileno(), its_connections.fileno()
            process = _begun(self._module, fds)
        worker = RunningWorker(process, await Channel.over(control), connections)
        self._running[seat] = worker
        task = WorkerTask(settings, self._log_level, *fds)
        assert process.stdin is not None
        with suppress(OSError), process.stdin:  # else it has ended already, which is seen below
            process.stdin.write(pickle.dumps(task))
        await _first(worker.ready.wait(), worker.gone.wait())
        if not worker.ready.is_set():
            why = worker.failed or f"its process ended with exit code {process.returncode}"
            raise StartFailed(f"{seat.name} cannot start: {why}")

    async def _keep(self, seat: S) -> None:
        """Start it again when it has ended; for ever."""
        backoff_s = BACKOFF_S
        while True:
            worker = self._running[seat]
            await _first(worker.gone.wait(), worker.drained.wait())
            if self._stopping:
                return
            worker.control.say(do="end")
            await worker.gone.wait()
            self._log.error("worker.ended", worker=seat.name, code=worker.process.returncode)
            await asyncio.sleep(backoff_s)
            try:
                await self._start(seat)
            except (StartFailed, OSError) as failed:
                self._log.error("worker.failed", worker=seat.name, reason=str(failed))
                backoff_s = min(backoff_s * 2, BACKOFF_S_MAX)
            else:
                self._log.info("worker.started", worker=seat.name)
                backoff_s = BACKOFF_S

    def serving(self) -> list[tuple[S, RunningWorker]]:
        return [
            (seat, worker)
            for seat, worker in self._running.items()
            if worker.ready.is_set() and not worker.drained.is_set() and not worker.gone.is_set()
        ]

    def all_serve(self) -> bool:
        return len(self.serving()) == len(self._seats)

    async def hand(self, connection: socket.socket) -> None:
        """To the one with the fewest, of those that do not drain if there are any; of a client with
        which a busy worker has parted, to the one that had least to do."""
        wanted = self._moved.worker_for(_address(connection), time.monotonic())
        while True:
            order = sorted(self.serving(), key=_turn)
            for _, worker in sorted(order, key=lambda one: one[0].number != wanted):
                if worker.hand(connection):
                    return
            await asyncio.sleep(FULL_S)

    async def balance(self, rules: BalanceRules) -> None:
        """A worker that stays busy while another is not parts with some of its work; for ever."""
        balance = WorkerBalance(rules)
        while True:
            await asyncio.sleep(LOOK_S)
            serving = {seat.number: (seat, worker) for seat, worker in self.serving()}
            move = balance.look(
                {number: worker.busy for number, (_, worker) in serving.items()},
                {number: not seat.drains for number, (seat, _) in serving.items()},
            )
            if move is not None:
                await self._move(serving[move.busiest], move)

    async def _move(self, busiest: tuple[S, RunningWorker], move: ConnectionMove) -> None:
        seat, worker = busiest
        try:
            client = await worker.ask("move", MOVE_S_MAX, share=move.share)
        except TimeoutError:
            return
        if client:
            self._moved.expect(client, move.least_busy, time.monotonic())
            self._log.info("connection.moved", worker=seat.name, client=client, busy=worker.busy)

    async def figures(self) -> dict[int, str]:
        """Number → its page of metrics; without those that are away."""
        serving = self.serving()
        pages = await asyncio.gather(
            *(worker.ask("figures", FIGURES_S_MAX) for _, worker in serving),
            return_exceptions=True,
        )
        return {
            seat.number: page
            for (seat, _), page in zip(serving, pages, strict=True)
            if isinstance(page, str)
        }

    async def _stop(self) -> None:
        """First all let go of their clients, then the brokers end: until the last client is gone,
        what its proxy asks of any broker is done."""
        self._stopping = True
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        workers = list(self._running.values())
        for worker in workers:
            worker.control.say(do="drain")
        await _all(DRAIN_S_MAX, [_first(one.drained.wait(), one.gone.wait()) for one in workers])
        for worker in workers:
            worker.control.say(do="end")
        await _all(END_S_MAX, [worker.gone.wait() for worker in workers])
        for seat, worker in self._running.items():
            if not worker.gone.is_set():
                self._log.error("worker.killed", worker=seat.name, seconds=END_S_MAX)
                worker.process.kill()
                await worker.gone.wait()


def _address(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:  # the client has gone since
        return ""


def _turn(one: tuple[Seat, RunningWorker]) -> tuple[bool, int, int]:
    """The next connection goes to the least."""
    seat, worker = one
    return seat.drains, worker.load, worker.handed


def _begun(module: str, fds: tuple[int, int]) -> "subprocess.Popen[bytes]":
    """By vfork: gRPC has threads in this process, and asyncio's own way, which forks, now and then
    made a child that crashed at once."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        pass_fds=fds,
        start_new_session=True,  # Ctrl-C is for the supervisor, which stops them in order
    )


def _wait(process: "subprocess.Popen[bytes]", ended: Callable[[], object]) -> None:
    process.wait()
    with suppress(RuntimeError):  # the event loop has ended, too
        ended()


async def _first(*waits: Awaitable[Any]) -> None:
    """Until one of them is over."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _all(seconds_max: float, waits: Sequence[Awaitable[Any]]) -> None:
    """Until all are over, or the time is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds_max):
            await asyncio.gather(*waits)
