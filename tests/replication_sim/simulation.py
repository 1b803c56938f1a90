"""Lives of a replica group: some seconds of faults, then the group must be whole again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from replication_sim.chaos import Chaos
from replication_sim.loop import SECOND
from replication_sim.violation import Violation
from replication_sim.world import World

LIFE_STEPS = 5_000
WHOLE_WITHIN = 60 * SECOND


@dataclass(slots=True)
class Summary:
    steps: int = 0
    answered: int = 0
    epochs: int = 0
    cuts: int = 0
    committed_bytes: int = 0

    def add(self, other: "Summary") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def __str__(self) -> str:
        return (
            f"{self.steps:,} steps: {self.answered:,} answers OK, {self.epochs:,} epochs, "
            f"{self.cuts:,} cuts, {self.committed_bytes:,} bytes committed"
        )


def life(seed: int, steps: int = LIFE_STEPS, dangers: Sequence[str] = ()) -> Summary:
    """`dangers`: those alone; none: some, drawn. Raises `Violation`."""
    world = World(seed)
    chaos = Chaos(world, dangers)
    loop = world.loop
    while loop.steps < steps:
        loop.step()
    chaos.end()
    _becomes_whole(world)
    judge = world.judge
    return Summary(loop.steps, judge.answered, len(judge.epochs), judge.cuts, len(judge.committed))


def _becomes_whole(world: World) -> None:
    """Within a bounded time all are in sync, and all show what is written from then on."""
    loop = world.loop
    until = loop.now + WHOLE_WITHIN
    goal: int | None = None
    while goal is None or world.shown_by_all() < goal:
        if loop.now > until:
            raise Violation("R6", _state(world))
        loop.step()
        if goal is None and loop.steps % 16 == 0 and world.is_whole():
            goal = len(world.judge.committed) + 1


def _state(world: World) -> str:
    runs = [
        f"{one.run_name} {type(one.role).__name__} log {one.meta.log_start}..{one.durable_end}.."
        f"{one.log_end} shown {one.shown_end} {one.disk.meta.incarnation} {one.meta.epochs}"
        for one in world.running.values()
    ]
    return f"not whole: {world.register.record}\n" + "\n".join(runs)


def run(seed: int, steps: int, tell: Callable[[int, Summary], None] | None = None) -> Summary:
    """Lives with consecutive seeds."""
    total = Summary()
    while total.steps < steps:
        try:
            total.add(life(seed))
        except Violation as found:
            found.add_note(f"make replica-sim SEED={seed} STEPS=1")
            raise
        if tell is not None and (seed % 20 == 0 or total.steps >= steps):
            tell(seed, total)
        seed += 1
    return total
