"""How often each business message is delivered, and what happens each time; a seed repeats it."""

import json
import random
from dataclasses import dataclass
from enum import Enum

from popmq import Message, ReceivedMessage

STEPS = 5  # messages about one entity, for the strategies that know an order
JITTER = 6  # a message is sent up to so many places from its turn


class Action(Enum):
    """What happens to one delivery."""

    CLEAN = "clean"
    DIES_BEFORE = "dies before the effect"
    DIES_INSIDE = "dies between the effect and its commit or mark"
    DIES_AFTER = "dies before the ack"
    LOST_ACK = "the ack is lost"
    OVERLAP = "the next delivery comes at once"
    SLOW = "as OVERLAP, and this one pauses before it commits"


DEATHS = (Action.DIES_BEFORE, Action.DIES_INSIDE, Action.DIES_AFTER)
_WEIGHTS = {
    Action.DIES_BEFORE: 2,
    Action.DIES_INSIDE: 4,
    Action.DIES_AFTER: 2,
    Action.LOST_ACK: 4,
    Action.OVERLAP: 4,
    Action.SLOW: 1,
}


@dataclass(frozen=True, slots=True)
class Copy:
    """One message as it was sent; a double send makes two of a business message."""

    run: str
    number: int
    copy: int
    actions: tuple[Action, ...]
    """Of its deliveries, in order; the last one ends well."""
    killed: bool = False
    """Deaths are deaths of the process."""

    @property
    def key(self) -> str:
        return f"{self.run}:{self.number}"

    @property
    def entity(self) -> str:
        return f"{self.run}:{self.number // STEPS}"

    @property
    def body(self) -> bytes:
        return json.dumps({"entity": self.entity, "step": self.number % STEPS}).encode()

    def action(self, delivery: int) -> Action:
        """`delivery` counts from 1."""
        return self.actions[delivery - 1] if delivery <= len(self.actions) else Action.CLEAN

    def to_send(self) -> Message:
        properties = {
            "actions": ",".join(action.name for action in self.actions),
            "killed": str(int(self.killed)),
        }
        return Message(body=self.body, keys=(self.key,), properties=properties)

    def received(self, group: str, delivery: int) -> ReceivedMessage:
        return ReceivedMessage(
            topic="torture",
            group=group,
            body=self.body,
            message_id=f"{self.key}/{self.copy}",
            tag=None,
            keys=(self.key,),
            properties={},
            message_group=None,
            deliver_at_ms=None,
            delivery_attempt=delivery,
            born_timestamp_ms=0,
            store_timestamp_ms=0,
            broker="simulated",
            queue_id=0,
            queue_offset=self.number,
            receipt_handle="",
        )


def actions_of(message: ReceivedMessage) -> tuple[tuple[Action, ...], bool]:
    names = message.properties["actions"].split(",")
    return tuple(Action[name] for name in names), message.properties["killed"] == "1"


def make(run: str, seed: int, messages: int, *, deaths: bool, kills: int = 0) -> list[Copy]:
    """In the order of sending: each business message 1 to 5 times. `kills`: how many copies take
    their whole process with them."""
    rng = random.Random(seed)
    kinds = [kind for kind in _WEIGHTS if deaths or kind not in DEATHS]
    weights = [_WEIGHTS[kind] for kind in kinds]
    placed: list[tuple[float, Copy]] = []
    for number in range(messages):
        deliveries = rng.randint(1, 5)
        first = rng.randint(1, deliveries) if rng.random() < 0.3 else deliveries
        for copy, count in enumerate([first, deliveries - first]):
            if count:
                actions = (*rng.choices(kinds, weights, k=count - 1), Action.CLEAN)
                made = Copy(run, number, copy, actions)
                placed.append((number + rng.uniform(0, JITTER), made))
    placed.sort(key=lambda pair: pair[0])
    copies = [copy for _, copy in placed]
    mortal = [i for i, copy in enumerate(copies) if set(copy.actions) & set(DEATHS)]
    for i in rng.sample(mortal, min(kills, len(mortal))):
        one = copies[i]
        copies[i] = Copy(one.run, one.number, one.copy, one.actions, killed=True)
    return copies
