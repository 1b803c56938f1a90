"""A process: runs, is paused, ends; calls others and is called."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from replication_sim.loop import MS, Loop, Pause, Signal, Task, Wake
from replication_sim.network import REGISTER
from replication_sim.register import View

from popmq_broker.core.replication.group_record import GroupRecord
from popmq_common.errors import PopMQError

if TYPE_CHECKING:
    from replication_sim.world import World

CALL_TIMEOUT = 300 * MS


class Process:
    def __init__(self, world: "World", name: str, run: str) -> None:
        self.world = world
        self.loop: Loop = world.loop
        self.name = name
        self.run_name = run
        self.alive = True
        self.paused = False
        self.clock_offset = world.rng.randrange(1 << 40)
        """Microseconds; of a clock that never runs back."""
        self._tasks: list[Task] = []
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    @property
    def now_ms(self) -> int:
        return (self.loop.now + self.clock_offset) // MS

    # --- running ---

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Task:
        task = Task(coroutine, self.run, self.loop)
        self._tasks = [*self._tasks[-10:], task]
        return task

    def run(self, call: Callable[..., None], *args: Any) -> None:
        if self.paused:
            self._held.append((call, args))
        elif self.alive:
            call(*args)

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for call, args in held:
            self.loop.after(0, self.run, call, *args)

    def end(self) -> None:
        self.alive = False
        for task in self._tasks:
            task.close()

    def sleep(self, delay: int) -> Pause:
        return Pause(lambda wake: self.loop.after(delay, wake, None))

    def signal(self) -> Signal:
        return Signal(self.loop)

    # --- calls; None: no answer came in time ---

    def call(self, end: str, method: str, *args: Any) -> Pause:
        """The answer, or the error, of another replica."""

        def arm(wake: Wake) -> None:
            self.world.network.send(
                self.name, end, self.world.deliver, end, method, self.name, wake, args
            )
            self.loop.after(CALL_TIMEOUT, wake, None)

        return Pause(arm)

    def tell(self, end: str, method: str, *args: Any) -> None:
        self.world.network.send(
            self.name, end, self.world.deliver, end, method, self.name, _ignore, args
        )

    def handle(self, method: str, start: str, wake: Wake, args: tuple[Any, ...]) -> None:
        def reply(value: Any) -> None:
            self.world.network.send(self.name, start, wake, value)

        try:
            getattr(self, method)(reply, *args)
        except PopMQError as error:
            reply(error)

    def read_register(self) -> Pause:
        def serve(wake: Wake) -> None:
            register, rng = self.world.register, self.world.rng
            old = self.world.old_reads and rng.random() < self.world.old_reads
            view: View = register.read_old(rng.randrange(1, 30)) if old else register.read()
            self.world.network.send(REGISTER, self.name, wake, view)

        return self._ask_register(serve)

    def swap_register(self, version: int, record: GroupRecord) -> Pause:
        """The new version in a tuple; (None,): refused."""

        def serve(wake: Wake) -> None:
            answer = (self.world.register.swap(version, record),)
            self.world.network.send(REGISTER, self.name, wake, answer)

        self.world.register.asked(version, record)
        return self._ask_register(serve)

    def beat(self, heart: str, lasts: int) -> None:
        self.world.network.send(self.name, REGISTER, self.world.register.beat, heart, lasts)

    def _ask_register(self, serve: Callable[[Wake], None]) -> Pause:
        def arm(wake: Wake) -> None:
            self.world.network.send(self.name, REGISTER, serve, wake)
            self.loop.after(CALL_TIMEOUT, wake, None)

        return Pause(arm)


def _ignore(_: Any) -> None:
    return
