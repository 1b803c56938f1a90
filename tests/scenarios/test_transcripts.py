"""Transcripts of a broker's behaviour: commands, a line of dashes, what they print.

    broker SETTING=VALUE…       first line: a broker of this configuration
    topic [queues=1] [attempts=16] [from=first|last|DURATION] [fifo=yes] [retry=1s,10s]
                                [hand-outs=1000]
                                make topic and group
    send BODY… [tag=T] [group=MESSAGE GROUP] [PROPERTY=VALUE…]
    send BODY… delay=30s [tag=T]        recall BODY…          roll
    pop [N] [invisible=10s] [tag=EXPR | sql=EXPR] [attempt=ID] [renew=CLIENT]
    alive CLIENT…               gone CLIENT…         a sign of life, a goodbye
    ack NAME [NAME…]            change NAME 30s          release NAME      forward NAME
    nack NAME… [delay=5s] [kind=counted|uncounted|fatal] [reason="TEXT"]
    dlq [reason=TEXT]           redrive [reason=TEXT] [max=N] [to=group] [dry=yes]
    purge [before=10s] [until=OFFSET] [dry=yes]
    half NAME… [immunity=60s]   commit-half NAME…   rollback-half NAME…   checks
    advance 10s    later 10s    restart     crash        show              delete [group]
    offsets
    expire                      retention looks once
    folders                     which queues are on disk
    disk 87%                    from now on, until the next start, so much of the disk is used
    join CLIENT [leave=yes]     (with topic lock=10s: pull … client=CLIENT)
    pull OFFSET [COUNT] [queue=0] [tag=EXPR | sql=EXPR] [client=C] [group=GROUP]
    commit OFFSET [queue=0] [client=C]          offset [queue=0]
    find first|last|DURATION [queue=0]          reset first|last|DURATION|OFFSET [queue=N] [dry=yes]
    fails [retries] OFFSET [level=N | delay=1m] [counted=no] [attempts=N] [tried=N] [reason="TEXT"]
    retries OFFSET              pulls what failed        lock, unlock CLIENT QUEUE…   locked
    search KEY [from=10s] [to=10s] [max=N]      message QUEUE:OFFSET
A duration there means that long after the start. A popped message gets the name of its body; its
newest handle is NAME, older ones NAME', NAME''.
"""

import random
import shlex
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.classic_steps import ClassicSteps
from harness.names import GROUP, TOPIC
from harness.offset_steps import OffsetSteps
from harness.retention_steps import RetentionSteps
from harness.steps import duration_ms

from popmq_broker.config import BrokerConfig
from popmq_common.errors import PopMQError
from popmq_common.process.config import from_env
from popmq_internal.v1 import link_pb2 as link

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def split(line: str) -> list[str]:
    """Words; only double quotes quote, so that a handle may be called a'."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split = True
    words.quotes = '"'
    words.commenters = ""
    return list(words)


class Stage(OffsetSteps, RetentionSteps, ClassicSteps):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.driver = EngineDriver(folder)
        self.began_ms = self.driver.clock.now_ms()
        self.handles: dict[str, str] = {}
        self.due_ms: dict[str, int] = {}
        self.halves: dict[str, tuple[int, int]] = {}

    def run(self, line: str) -> list[str]:
        verb, *words = split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        arguments = [word for word in words if "=" not in word]
        try:
            found: list[str] = getattr(self, f"do_{verb.replace('-', '_')}")(arguments, options)
        except PopMQError as error:
            return [f"error {type(error).__name__}"]
        return found

    def do_broker(self, _: list[str], options: dict[str, str]) -> list[str]:
        self.driver.close()
        settings = from_env(BrokerConfig, "", {"DATA_DIR": "", **upper(options)})
        chosen = {name: getattr(settings, name) for name in options}
        self.driver = EngineDriver(self._folder / "configured", **chosen)
        return []

    def do_offsets(self, _: list[str], __: dict[str, str]) -> list[str]:
        """The file of the offsets is written, as every five seconds."""
        self.driver.run(self.driver.broker.offsets.write())
        return []

    def do_topic(self, _: list[str], options: dict[str, str]) -> list[str]:
        self.driver.make(
            queues=int(options.get("queues", "1")),
            max_attempts=int(options.get("attempts", "16")),
            max_hand_outs=int(options.get("hand-outs", "1000")),
            **self.start(options.get("from", "first")),
            fifo=options.get("fifo") == "yes",
            retry_policy=policy(options["retry"]) if "retry" in options else None,
            lock_hold_ms=duration_ms(options.get("lock", "0s")),
        )
        return []

    def do_send(self, bodies: list[str], options: dict[str, str]) -> list[str]:
        if "delay" in options:
            for body in bodies:
                delay_ms = duration_ms(options["delay"])
                self.due_ms[body] = self.driver.send_later(body, delay_ms, options.get("tag"))
            return []
        more = {name: value for name, value in options.items() if name not in ("tag", "group")}
        for body in bodies:
            self.driver.send(body, options.get("tag"), options.get("group", ""), more)
        return []

    def do_recall(self, names: list[str], _: dict[str, str]) -> list[str]:
        for name in names:
            self.driver.recall(name, self.due_ms[name])
        return ["recalled" for _ in names]

    def do_roll(self, _: list[str], __: dict[str, str]) -> list[str]:
        """Records of waiting messages that have become old are written again."""

        async def step() -> bool:
            store = self.driver.broker.state.runtime.store
            before = store.log_end
            self.driver.broker.timer_keeper.roll()
            await store.durable(store.log_end)
            return store.log_end > before

        return ["rolled" if self.driver.run(step()) else "nothing to roll"]

    def do_pop(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        count = int(arguments[0]) if arguments else 32
        invisible_ms = duration_ms(options.get("invisible", "10s"))
        lines = []
        expression, attempt_id = options.get("tag", ""), options.get("attempt", "")
        sql, client_id = options.get("sql", ""), options.get("renew", "")
        popped = self.driver.pop(count, invisible_ms, expression, attempt_id, sql, client_id)
        for message in popped:
            name = message.body.decode()
            self._handle(name, message.handle)
            where = "retry" if message.receipt.retry_mark else "topic"
            lines.append(f"{name} attempt={message.delivery_attempt} from {where}")
        return lines or ["nothing"]

    def do_ack(self, names: list[str], _: dict[str, str]) -> list[str]:
        outcomes = self.driver.ack(*(self.handles[name] for name in names))
        return [outcome_name(outcome) for outcome in outcomes]

    def do_change(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        name, time = arguments
        reply = self.driver.change(self.handles[name], duration_ms(time))
        if reply.handle:
            self._handle(name, reply.handle)
        return [outcome_name(reply.outcome)]

    def do_nack(self, names: list[str], options: dict[str, str]) -> list[str]:
        kind = link.NackKind.Value(f"NACK_KIND_{options.get('kind', 'counted').upper()}")
        delay_ms = duration_ms(options["delay"]) if "delay" in options else -1
        handles = [self.handles[name] for name in names]
        reason = options.get("reason", "")
        outcomes = self.driver.nack(*handles, kind=kind, delay_ms=delay_ms, reason=reason)
        return [outcome_name(outcome) for outcome in outcomes]

    def do_dlq(self, _: list[str], options: dict[str, str]) -> list[str]:
        reply = self.driver.dead_letters(filter=link.DeadLetterFilter(**options), whole=True)
        return [
            f"{letter.body.decode()} of {letter.topic} after {letter.attempts}: {letter.reason}"
            + (" (sent again)" if letter.redriven else "")
            for letter in reply.letters
        ]

    def do_search(self, keys: list[str], options: dict[str, str]) -> list[str]:
        """`from` and `to` count from the transcript's start."""
        count_max = int(options.get("max", "64"))
        request = link.FindMessages(
            topic=TOPIC, key=keys[0], count_max=count_max, body_bytes_max=100
        )
        if "from" in options:
            request.from_ms = self.began_ms + duration_ms(options["from"])
        if "to" in options:
            request.until_ms = self.began_ms + duration_ms(options["to"])
        found = self.driver.call(find_messages=request).found_messages
        return [where(message) for message in found.messages] or ["nothing"]

    def do_message(self, places: list[str], _: dict[str, str]) -> list[str]:
        queue_id, offset = places[0].split(":")
        request = link.GetMessage(topic=TOPIC, queue_id=int(queue_id), offset=int(offset))
        found = self.driver.call(get_message=request).found_messages
        return [where(message) for message in found.messages] or ["nothing"]

    def do_redrive(self, _: list[str], options: dict[str, str]) -> list[str]:
        count_max = int(options.pop("max", "100"))
        to_topic, dry_run = options.pop("to", "") != "group", options.pop("dry", "") == "yes"
        chosen = link.DeadLetterFilter(**options)
        reply = self.driver.redrive(
            filter=chosen, count_max=count_max, to_topic=to_topic, dry_run=dry_run
        )
        left = f", {reply.without_topic} without topic" if reply.without_topic else ""
        left += f", {reply.in_order} in order" if reply.in_order else ""
        more = ", more" if reply.next_offset >= 0 else ""
        return [f"{reply.sent} sent, {reply.already} already{left}{more}"]

    def do_purge(self, _: list[str], options: dict[str, str]) -> list[str]:
        """`before` counts from the transcript's start."""
        before_ms = self.began_ms + duration_ms(options["before"]) if "before" in options else 0
        until, dry_run = int(options.get("until", "0")), options.get("dry") == "yes"
        reply = self.driver.purge(before_ms=before_ms, until_offset=until, dry_run=dry_run)
        return [f"{reply.count} dead letters, {reply.redriven} sent again"]

    def do_half(self, bodies: list[str], options: dict[str, str]) -> list[str]:
        immunity_s = duration_ms(options.get("immunity", "0s")) // 1_000
        for body in bodies:
            self.halves[body] = self.driver.half(body, immunity_s)
        return []

    def do_commit_half(self, names: list[str], _: dict[str, str]) -> list[str]:
        return [self._end(name, commit=True) for name in names]

    def do_rollback_half(self, names: list[str], _: dict[str, str]) -> list[str]:
        return [self._end(name, commit=False) for name in names]

    def _end(self, name: str, *, commit: bool) -> str:
        try:
            self.driver.end(self.halves[name], commit=commit)
        except PopMQError as error:
            return f"{name}: {type(error).__name__} {error.fields.get('outcome', '')}".rstrip()
        return f"{name}: done"

    def do_checks(self, _: list[str], __: dict[str, str]) -> list[str]:
        """What producers are asked now."""
        found = self.driver.poll_checks()
        names = {place: name for name, place in self.halves.items()}
        lines = [f"{names[h.half_offset, h.log_offset]} for the {h.checks}. time" for h in found]
        return lines or ["nothing"]

    def do_release(self, names: list[str], _: dict[str, str]) -> list[str]:
        handles = [self.handles[name] for name in names]
        self.driver.call(release=link.Release(group=GROUP, topic=TOPIC, handles=handles))
        return []

    def do_forward(self, names: list[str], _: dict[str, str]) -> list[str]:
        forward = link.ForwardDeadLetter(group=GROUP, topic=TOPIC, handle=self.handles[names[0]])
        self.driver.call(forward_dead_letter=forward)
        return []

    def do_alive(self, clients: list[str], _: dict[str, str]) -> list[str]:
        self.driver.alive(*clients)
        return []

    def do_gone(self, clients: list[str], _: dict[str, str]) -> list[str]:
        self.driver.gone(*clients)
        return []

    def do_advance(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        self.driver.advance(duration_ms(arguments[0]))
        return []

    def do_later(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        """Time passes, but the revival has not run yet."""
        self.driver.clock.advance(duration_ms(arguments[0]))
        return []

    def do_restart(self, _: list[str], __: dict[str, str]) -> list[str]:
        self.driver.restart()
        return []

    def do_crash(self, _: list[str], __: dict[str, str]) -> list[str]:
        self.driver.crash(random.Random(1))
        return []

    def do_delete(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        if arguments == ["group"]:
            self.driver.call(delete_group=link.DeleteGroup(group=GROUP))
        else:
            self.driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
        return []

    def do_show(self, _: list[str], __: dict[str, str]) -> list[str]:
        """What each topic holds, and where the group is in it."""
        reply = self.driver.call(describe=link.Describe()).describe
        lines = []
        for topic in reply.topics:
            if not topic.config.name.lower().startswith("rmq_sys_"):
                held = sum(queue.max_offset - queue.min_offset for queue in topic.queues)
                lines.append(f"{topic.config.name}: {held} stored")
        for group in reply.groups:
            for queue in group.queues:
                lines.append(
                    f"{group.config.name} in {queue.topic}/{queue.queue_id}: "
                    f"committed {queue.committed_offset}, {queue.in_flight} in flight"
                    + (f", {queue.expired} expired" if queue.expired else "")
                )
        return sorted(lines)

    def _handle(self, name: str, handle: str) -> None:
        if name in self.handles:
            self._handle(name + "'", self.handles[name])
        self.handles[name] = handle


def where(message: link.StoredMessage) -> str:
    return f"{message.body.decode()} at {message.queue_id}:{message.offset}"


def upper(options: dict[str, str]) -> dict[str, str]:
    return {name.upper(): value for name, value in options.items()}


def policy(text: str) -> link.RetryPolicy:
    return link.RetryPolicy(delays_ms=[duration_ms(word) for word in text.split(",")])


def outcome_name(outcome: int) -> str:
    name = next(key for key, value in link.LeaseOutcome.items() if value == outcome)
    return name.removeprefix("LEASE_OUTCOME_").lower().replace("_", " ")


def blocks(text: str) -> list[tuple[list[str], list[str]]]:
    """(commands, expected lines) of each block; blocks are separated by blank lines."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if "----" in lines:
            at = lines.index("----")
            found.append((lines[:at], lines[at + 1 :]))
        elif lines:
            found.append((lines, []))
    return found


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    try:
        for commands, expected in blocks(path.read_text()):
            printed = [line for command in commands for line in stage.run(command)]
            assert printed == expected, f"{path.name}, after {commands}"
    finally:
        stage.driver.close()


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 6
