"""What happens to a group of replicas: one fault after the other, some at once."""

from collections.abc import Callable, Sequence

from replication_sim.loop import MS, SECOND
from replication_sim.network import REGISTER
from replication_sim.world import CLIENT, World

HOUR = 3_600 * SECOND


class Chaos:
    def __init__(self, world: World, dangers: Sequence[str] = ()) -> None:
        """`dangers`: those alone; none: some, drawn."""
        self._world = world
        rng = world.rng
        self._every = rng.choice((60, 200, 600)) * MS
        faults: dict[str, Callable[[], None]] = {
            "power": self._power,
            "power of all": self._power_of_all,
            "kill": self._kill,
            "pause": self._pause,
            "wipe": self._wipe,
            "stop": self._stop,
            "second process": self._second,
            "slow disk": self._slow_disk,
            "clock": self._clock,
            "retention": self._retention,
            "cut off": self._cut_off,
            "one way": self._one_way,
            "no register": self._no_register,
            "weather": self._weather,
        }
        drawn = rng.sample(sorted(faults), rng.randrange(3, len(faults) + 1))
        self._faults = [faults[name] for name in dangers or drawn]
        self._over = False
        self._weather()
        world.loop.after(1 * SECOND, self._next)

    def end(self) -> None:
        self._over = True
        self._world.heal()

    def _next(self) -> None:
        if not self._over:
            rng = self._world.rng
            rng.choice(self._faults)()
            most = 20 * MS if rng.random() < 0.3 else 2 * self._every
            self._world.loop.after(rng.randrange(1, most), self._next)

    def _later(self, call: Callable[..., None], *args: object) -> None:
        """In some milliseconds or seconds."""
        rng = self._world.rng
        most = rng.choice((10 * MS, 100 * MS, 1 * SECOND, 3 * SECOND, 10 * SECOND))
        self._world.loop.after(rng.randrange(most), self._unless_over, call, args)

    def _unless_over(self, call: Callable[..., None], args: tuple[object, ...]) -> None:
        if not self._over:
            call(*args)

    def _any(self) -> str:
        """The primary as often as all others."""
        world = self._world
        if world.register.record is not None and world.rng.random() < 0.5:
            return world.register.record.primary
        return world.rng.choice(world.names)

    # --- processes and disks ---

    def _power(self) -> None:
        name = self._any()
        self._world.kill(name, power=True)
        self._later(self._world.start, name)

    def _power_of_all(self) -> None:
        for name in self._world.names:
            self._world.kill(name, power=True)
            self._later(self._world.start, name)

    def _kill(self) -> None:
        name = self._any()
        self._world.kill(name, power=False)
        self._later(self._world.start, name)

    def _pause(self) -> None:
        replica = self._world.running.get(self._any())
        if replica is not None and not replica.paused:
            replica.paused = True
            self._later(replica.resume)

    def _wipe(self) -> None:
        name = self._any()
        if self._world.may_be_wiped(name):
            self._world.wipe(name)
            self._later(self._world.start, name)

    def _slow_disk(self) -> None:
        disk = self._world.disks[self._any()]
        disk.slow_factor = self._world.rng.choice((10, 100, 500))
        self._later(setattr, disk, "slow_factor", 1)

    def _clock(self) -> None:
        """Jumps of hours: of a replica that slept, of the register."""
        replica = self._world.running.get(self._any())
        if replica is not None and self._world.rng.random() < 0.7:
            replica.clock_offset += self._world.rng.randrange(5 * HOUR)
        else:
            self._world.register.clock_offset += self._world.rng.randrange(5 * HOUR)

    def _stop(self) -> None:
        """Told to stop, as before an upgrade; it hands over, and is killed if it cannot."""
        name = self._any()
        replica = self._world.running.get(name)
        if replica is not None:
            replica.stopping = True
            self._world.loop.after(3 * SECOND, self._unless_over, self._stopped, (replica,))

    def _stopped(self, replica: object) -> None:
        for name, one in [*self._world.running.items()]:
            if one is replica:
                self._world.kill(name, power=False)
                self._later(self._world.start, name)

    def _second(self) -> None:
        self._world.start_second(self._any())

    def _retention(self) -> None:
        self._world.retain(self._any())

    # --- the network ---

    def _weather(self) -> None:
        rng, network = self._world.rng, self._world.network
        network.lost = rng.choice((0.0, 0.01, 0.1))
        network.doubled = rng.choice((0.0, 0.05))
        network.late = rng.choice((0.0, 0.02, 0.15))
        self._world.old_reads = rng.choice((0.0, 0.1, 0.3))

    def _cut_off(self) -> None:
        """One replica, from some others or all."""
        world, name = self._world, self._any()
        others = [one for one in (*world.names, REGISTER, CLIENT) if one != name]
        for other in world.rng.sample(others, world.rng.randrange(1, len(others) + 1)):
            world.network.block(name, other)
        self._later(self._open)

    def _one_way(self) -> None:
        world = self._world
        one, other = world.rng.sample((*world.names, REGISTER), 2)
        world.network.block(one, other, both=False)
        self._later(self._open)

    def _no_register(self) -> None:
        for name in self._world.names:
            self._world.network.block(name, REGISTER, both=self._world.rng.random() < 0.5)
        self._later(self._open)

    def _open(self) -> None:
        self._world.network.blocked.clear()
