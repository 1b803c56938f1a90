"""What is done to the servers, drawn from a seed.

There are lanes; faults of one lane come one after the other, those of different lanes at the same
time. A broker has a lane for its replicas, of which therefore two live at any time, and one for
the links between them.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

PRIMARY, BACKUP = "primary", "backup"


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    weight: int
    holds_s: tuple[float, float]
    """How long it lasts: least, most."""
    role: str = ""
    """Of the replica that is struck."""


LEASE_S: Final = 3.0
"""Of a primary; a pause that is longer costs it its role."""

REPLICAS: Final = (
    Kind("kill", 6, (0.2, 8.0), PRIMARY),
    Kind("kill", 4, (0.2, 8.0), BACKUP),
    Kind("pause", 3, (0.2, 0.8 * LEASE_S), PRIMARY),
    Kind("long pause", 3, (1.5 * LEASE_S, 4 * LEASE_S), PRIMARY),
    Kind("pause", 2, (0.2, 0.8 * LEASE_S), BACKUP),
    Kind("long pause", 2, (1.5 * LEASE_S, 4 * LEASE_S), BACKUP),
    Kind("stop", 5, (0.2, 5.0), PRIMARY),
    Kind("stop", 3, (0.2, 5.0), BACKUP),
    Kind("wipe", 2, (0.2, 3.0), BACKUP),
)
FAIL_OVERS: Final = (
    Kind("kill", 3, (0.2, 6.0), PRIMARY),
    Kind("long pause", 1, (1.5 * LEASE_S, 3 * LEASE_S), PRIMARY),
    Kind("stop", 2, (0.2, 4.0), PRIMARY),
)
"""Each takes the primary its role."""
HAND_OVERS: Final = (Kind("hand-over", 1, (0.0, 0.0), PRIMARY),)
"""An operator names another primary; nothing ends."""
LINKS: Final = (
    Kind("cut from the others", 2, (0.5, 8.0), PRIMARY),
    Kind("cut from the others", 2, (0.5, 8.0), BACKUP),
    Kind("not heard by the others", 2, (0.5, 8.0), PRIMARY),
    Kind("deaf to the others", 2, (0.5, 8.0), PRIMARY),
    Kind("not heard by the others", 1, (0.5, 8.0), BACKUP),
    Kind("deaf to the others", 1, (0.5, 8.0), BACKUP),
    Kind("cut from the proxies", 2, (0.5, 5.0), PRIMARY),
)
REGISTER_LINKS: Final = (
    Kind("cut from the register", 3, (0.5, 4 * LEASE_S), PRIMARY),
    Kind("cut from the register", 2, (0.5, 4 * LEASE_S), BACKUP),
)
"""Where it has servers."""
PROXIES: Final = (Kind("kill", 2, (0.2, 3.0)), Kind("pause", 1, (0.2, 5.0)))
NAMESERVERS: Final = (Kind("kill", 2, (0.2, 5.0)), Kind("pause", 1, (0.2, 5.0)))
REGISTER: Final = (Kind("kill", 2, (0.2, 6.0)), Kind("pause", 2, (0.2, 6.0)))
"""One of its members."""


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    kinds: tuple[Kind, ...]
    gaps_s: tuple[float, float]
    """From the end of one fault to the next: least, most."""
    broker: str = ""
    targets: tuple[str, ...] = ()
    """Processes, where they have no roles."""


@dataclass(frozen=True, slots=True)
class Planned:
    kind: Kind
    gap_s: float
    """After the one before."""
    hold_s: float
    choice: float
    """0 to 1: which of those that it may strike."""

    def one_of(self, targets: Sequence[str]) -> str:
        return targets[int(self.choice * len(targets))]


LANES: Final = ("replicas", "links", "proxies", "nameservers", "register")
ALONE: Final = {"fail-overs": (FAIL_OVERS, (2.0, 5.0)), "hand-overs": (HAND_OVERS, (5.0, 9.0))}
"""In the place of all others: as many of these as fit into the time, and their gaps."""


def lanes(
    brokers: Sequence[str], servers: Sequence[str], wanted: Sequence[str] = LANES
) -> list[Lane]:
    """`servers`: nameservers, proxies, and members of the register. `wanted`: some of `LANES`, or
    of `ALONE`."""

    def named(start: str) -> tuple[str, ...]:
        return tuple(name for name in servers if name.startswith(start))

    if alone := [name for name in ALONE if name in wanted]:
        return [Lane(f"{one}/{name}", *ALONE[name], one) for name in alone for one in brokers]
    found = [Lane(f"{one}/replicas", REPLICAS, (0.5, 8.0), one) for one in brokers]
    links = LINKS + (REGISTER_LINKS if named("etcd") else ())
    found += [Lane(f"{one}/links", links, (8.0, 30.0), one) for one in brokers]
    found.append(Lane("proxies", PROXIES, (10.0, 40.0), targets=named("proxy")))
    found.append(Lane("nameservers", NAMESERVERS, (15.0, 60.0), targets=named("nameserver")))
    found.append(Lane("register", REGISTER, (10.0, 40.0), targets=named("etcd")))
    struck = [lane for lane in found if lane.broker or lane.targets]
    return [lane for lane in struck if lane.name.rpartition("/")[2] in wanted]


def plan(seed: int, lane: Lane) -> Iterator[Planned]:
    """For ever; the same at each run with the seed."""
    rng = random.Random(f"{seed}/{lane.name}")
    weights = [kind.weight for kind in lane.kinds]
    while True:
        (kind,) = rng.choices(lane.kinds, weights)
        yield Planned(kind, rng.uniform(*lane.gaps_s), rng.uniform(*kind.holds_s), rng.random())
