"""Many lives beside each other in one real broker, each with a topic and a group of its own: all
that a broker does, at random, so that an audit of its log looks at many histories at once.

A life sends, receives with changing filters, acks, changes, nacks, renews, pulls and commits,
delays and recalls, settles transactions, redrives and purges dead letters, resets, deletes and
re-creates its topic or its group. The broker is restarted, crashes, deletes old files of its log,
and its clock is set back by less than the audit minds. A seed repeats all of it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.broker import EngineDriver
from harness.handle_runs import runs_of

from popmq_common.errors import PopMQError
from popmq_common.records import hosts, properties
from popmq_internal.v1 import link_pb2 as link

TAGS = ("a", "b", "c")
FILTERS: tuple[tuple[int, str], ...] = (
    (link.FILTER_KIND_ALL, ""),
    (link.FILTER_KIND_TAG, "a"),
    (link.FILTER_KIND_TAG, "a || c"),
    (link.FILTER_KIND_TAG, "*"),
    (link.FILTER_KIND_SQL, "number < 4"),
    (link.FILTER_KIND_SQL, "TAGS = 'b' OR colour IS NULL"),
)
CLOCK_BACK_MS_MAX = 900


@dataclass
class Life:
    driver: EngineDriver
    number: int
    rng: random.Random
    filter: tuple[int, str] = FILTERS[0]
    held: list[str] = field(default_factory=list)
    halves: list[tuple[int, int]] = field(default_factory=list)
    later: list[tuple[str, int]] = field(default_factory=list)
    pulled: dict[int, int] = field(default_factory=dict)
    """Of a life that pulls: queue → where it goes on."""
    count: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        self.fifo = rng.random() < 0.35
        self.pulls = not self.fifo and rng.random() < 0.2
        self.filters = rng.random() < 0.6
        self.max_attempts = rng.randint(1, 4)
        self.queues = rng.randint(1, 3)
        self.steps: list[Callable[[], object]] = [
            *[self.send] * 6,
            *[self.pull if self.pulls else self.pop] * 5,
            *[self.ack] * 5,
            *(self.change, self.extend, self.nack, self.nack, self.send_later, self.recall),
            *(self.half, self.end, self.redrive, self.reset, self.sometimes),
        ]
        self.begin()

    @property
    def topic(self) -> str:
        return f"topic-{self.number}"

    @property
    def group(self) -> str:
        return f"group-{self.number}"

    def begin(self) -> None:
        rng = self.rng
        self.put_topic()
        self.put_group()
        if rng.random() < 0.5:
            self.send()
            now_ms = self.driver.clock.now_ms()
            self.call(
                fix_start=link.FixStart(
                    group=self.group, topic=self.topic, at_ms=now_ms, is_now=True
                )
            )

    def put_topic(self) -> None:
        config = link.TopicConfig(
            name=self.topic,
            read_queues=self.queues,
            write_queues=self.queues,
            message_type="MIXED",
        )
        self.call(put_topic=link.PutTopic(topic=config))

    def put_group(self) -> None:
        config = link.GroupConfig(
            name=self.group,
            fifo=self.fifo,
            max_attempts=self.max_attempts,
            consume_from=self.rng.choice(["FIRST", "LAST", "TIME"]),
            consume_from_ms=self.driver.clock.now_ms() - self.rng.randint(0, 5_000),
            max_hand_outs=self.max_attempts + 2,
        )
        self.call(put_group=link.PutGroup(group=config))

    def step(self) -> None:
        try:
            self.rng.choice(self.steps)()
        except PopMQError:
            return  # an old handle, a topic that is gone: refused, nothing written

    def forget(self) -> None:
        """What its clients knew, when the broker has crashed."""
        self.held, self.halves, self.later = [], [], []

    def call(self, **body: Any) -> link.Reply:
        return self.driver.call(**body)

    def record(self) -> link.Send:
        self.count += 1
        body = f"{self.number}-{self.count}-{'m' * self.rng.randrange(40)}"
        named = {properties.UNIQ_KEY: f"id-{body}", "number": str(self.rng.randrange(8))}
        if self.rng.random() < 0.5:
            named["colour"] = "blue"
        if self.rng.random() < 0.7:
            named[properties.TAGS] = self.rng.choice(TAGS)
        queue_id = -1
        if self.fifo:
            message_group = self.rng.choice("stuv")
            named[properties.SHARDING_KEY] = message_group
            queue_id = ord(message_group) % self.queues
        made = link.OutgoingRecord(
            body=body.encode(),
            properties=properties.encode(named),
            born_timestamp_ms=self.driver.clock.now_ms(),
            born_host=hosts.LOCAL,
        )
        return link.Send(topic=self.topic, queue_id=queue_id, records=[made])

    def send(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.call(send=self.record())

    def pop(self) -> None:
        if self.filters and self.rng.random() < 0.2:
            self.filter = self.rng.choice(FILTERS)
        kind, expression = self.filter
        renewed = self.rng.random() < 0.1
        request = link.Pop(
            group=self.group,
            topic=self.topic,
            batch_size=self.rng.randint(1, 8),
            invisible_ms=self.rng.choice([500, 5_000, 60_000]),
            filter_kind=link.FilterKind.ValueType(kind),
            filter_expression=expression,
            client_id="c1" if renewed else "",
            auto_renew=renewed,
        )
        self.held += [message.handle for message in self.call(pop=request).pop.messages]

    def pull(self) -> None:
        queue_id = self.rng.randrange(self.queues)
        request = link.Pull(
            group=self.group,
            topic=self.topic,
            queue_id=queue_id,
            offset=self.pulled.get(queue_id, 0),
            batch_size=4,
            client_id="p",
        )
        self.pulled[queue_id] = offset = self.call(pull=request).pull.next_offset
        if self.rng.random() < 0.5:
            self.call(
                commit_offset=link.CommitOffset(
                    group=self.group,
                    topic=self.topic,
                    queue_id=queue_id,
                    offset=offset,
                    client_id="p",
                )
            )

    def some(self) -> list[str]:
        self.rng.shuffle(self.held)
        cut = min(len(self.held), self.rng.randint(1, 4))
        taken, self.held = self.held[:cut], self.held[cut:]
        return taken

    def ack(self) -> None:
        if self.held:
            self.call(ack=link.Ack(group=self.group, topic=self.topic, handles=self.some()))

    def change(self) -> None:
        if not self.held:
            return
        request = link.ChangeInvisible(
            group=self.group,
            topic=self.topic,
            handle=self.some()[0],
            invisible_ms=self.rng.choice([0, 1_000, 30_000]),
        )
        self.held.append(self.call(change_invisible=request).change_invisible.handle)

    def extend(self) -> None:
        """Of some of them, which may be a part of what was handed out together."""
        chosen = self.rng.sample(self.held, min(len(self.held), self.rng.randint(1, 6)))
        invisible_ms = self.rng.choice([1_000, 30_000, 60_000])
        runs, _ = runs_of(chosen)
        self.call(
            extend=link.Extend(
                group=self.group, topic=self.topic, runs=runs, invisible_ms=invisible_ms
            )
        )

    def nack(self) -> None:
        if not self.held:
            return
        kinds = (link.NACK_KIND_COUNTED, link.NACK_KIND_UNCOUNTED, link.NACK_KIND_FATAL)
        request = link.Nack(
            group=self.group,
            topic=self.topic,
            kind=self.rng.choice(kinds),
            delay_ms=self.rng.choice([-1, 0, 2_000]),
            reason=self.rng.choice(["", "no"]),
        )
        handles = self.some()
        if self.rng.random() < 0.5:
            request.handles.extend(handles)
        else:
            request.runs.extend(runs_of(handles)[0])
        self.call(nack=request)

    def send_later(self) -> None:
        request = self.record()
        due_ms = self.driver.clock.now_ms() + self.rng.randint(1, 20_000)
        (record,) = request.records
        named = properties.decode(record.properties)
        self.later.append((named[properties.UNIQ_KEY], due_ms))
        record.properties = properties.encode({**named, properties.DELIVER_MS: str(due_ms)})
        request.kind = link.SEND_KIND_DELAY
        request.queue_id = max(0, request.queue_id)
        self.call(send=request)

    def recall(self) -> None:
        if self.later:
            message_id, due_ms = self.later.pop()
            request = link.Recall(topic=self.topic, message_id=message_id, due_ms=due_ms)
            self.call(recall=request)

    def half(self) -> None:
        request = self.record()
        request.kind = link.SEND_KIND_HALF
        reply = self.call(send=request).send
        self.halves.append((reply.queue_offset, reply.log_offsets[0]))

    def end(self) -> None:
        if not self.halves:
            return
        half_offset, log_offset = self.halves.pop(self.rng.randrange(len(self.halves)))
        request = link.EndTransaction(
            topic=self.topic,
            half_offset=half_offset,
            log_offset=log_offset,
            commit=self.rng.random() < 0.6,
        )
        self.call(end_transaction=request)

    def redrive(self) -> None:
        which = link.Redrive(group=self.group, count_max=self.rng.randint(1, 3))
        to_topic = self.rng.random() < 0.5
        self.call(redrive_dead_letters=link.RedriveDeadLetters(which=which, to_topic=to_topic))

    def reset(self) -> None:
        if self.rng.random() < 0.5:
            return
        at = self.rng.choice([link.OFFSET_AT_MIN, link.OFFSET_AT_MAX, link.OFFSET_AT_TIME])
        time_ms = self.driver.clock.now_ms() - self.rng.randint(0, 20_000)
        request = link.ResetOffsets(group=self.group, topic=self.topic, at=at, time_ms=time_ms)
        if self.rng.random() < 0.3:
            request.queue_id = self.rng.randrange(self.queues)
        self.call(reset_offsets=request)

    def sometimes(self) -> None:
        if self.rng.random() < 0.6:
            return
        deed = self.rng.choice(
            [self.remake_topic, self.remake_group, self.purge, self.alive, self.gone]
        )
        deed()

    def remake_topic(self) -> None:
        self.call(delete_topic=link.DeleteTopic(topic=self.topic))
        self.pulled = {}
        self.put_topic()

    def remake_group(self) -> None:
        self.call(delete_group=link.DeleteGroup(group=self.group))
        self.pulled = {}
        self.put_group()

    def purge(self) -> None:
        self.call(purge_dead_letters=link.PurgeDeadLetters(group=self.group))

    def alive(self) -> None:
        self.driver.alive("c1")

    def gone(self) -> None:
        self.driver.gone("c1")


class Lives:
    """Some lives, one step here and one there."""

    def __init__(self, driver: EngineDriver, seed: int, count: int) -> None:
        self.driver = driver
        self.rng = random.Random(seed)
        self.lives = [Life(driver, number, self.rng) for number in range(count)]

    def go_on(self, steps: int) -> None:
        """So many steps of each, on average, and what happens to all of them together."""
        for _ in range(steps * len(self.lives)):
            self.rng.choice(self.lives).step()
            if self.rng.random() < 0.15:
                self.driver.advance(self.rng.choice([10, 500, 5_000, 10_000]))
            if self.rng.random() < 0.01:
                self.driver.clock.set_back(self.rng.randint(1, CLOCK_BACK_MS_MAX))
                self.driver.clock.advance(CLOCK_BACK_MS_MAX)

    def crash(self) -> None:
        self.driver.crash(self.rng)
        for life in self.lives:
            life.forget()

    def write_positions(self) -> None:
        self.driver.run(self.driver.broker.offsets.write())

    def settle(self, ms: int) -> None:
        """Until everything that is held has run out."""
        self.driver.advance(ms)
