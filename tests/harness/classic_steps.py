"""Steps of transcripts about consumers that pull: what they send back, and queues they lock."""

from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.core.timers.timer_levels import parse
from popmq_common.records import properties as names
from popmq_common.records.names import classic_retry_topic
from popmq_common.records.record import decode, own_offset
from popmq_internal.v1 import link_pb2 as link


class ClassicSteps:
    driver: EngineDriver

    def do_fails(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        """The handler of the message there fails."""
        request = link.SendBack(
            group=GROUP,
            topic=classic_retry_topic(GROUP) if "retries" in arguments else TOPIC,
            queue_id=int(options.get("queue", "0")),
            offset=int(arguments[-1]),
            level=int(options.get("level", "0")),
            uncounted=options.get("counted") == "no",
            max_attempts=int(options.get("attempts", "0")),
            attempts=int(options.get("tried", "0")),
            reason=options.get("reason", ""),
        )
        if "delay" in options:
            request.delay_ms = parse(options["delay"])[0]
        reply = self.driver.call(send_back=request).send_back
        return [f"to {reply.topic}" + (f", level {reply.level}" if reply.level else "")]

    def do_retries(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        """The group's retry topic is pulled from an offset on."""
        pull = link.Pull(
            group=GROUP,
            topic=classic_retry_topic(GROUP),
            offset=int(arguments[0]),
            batch_size=32,
        )
        lines = []
        for raw in self.driver.call(pull=pull).pull.records:
            record = decode(raw, where="pull", log_offset=own_offset(raw))
            topic = names.decode(record.properties)[names.RETRY_TOPIC]
            body, attempt = record.body.decode(), record.reconsume_times + 1
            lines.append(f"{body} of {topic} attempt={attempt} at {record.queue_offset}")
        return lines or ["nothing"]

    def do_lock(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        """CLIENT QUEUE…: those of them that it has then."""
        reply = self._ask(arguments, release=False)
        return [" ".join(map(str, reply.queue_ids)) or "none"]

    def do_unlock(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        self._ask(arguments, release=True)
        return []

    def do_locked(self, _: list[str], __: dict[str, str]) -> list[str]:
        """Who has which queue, as `popmq group show` says."""
        reply = self.driver.call(describe=link.Describe(group=GROUP)).describe
        held = [queue for group in reply.groups for queue in group.queues if queue.locked_by]
        return [f"{queue.queue_id} {queue.locked_by}" for queue in held] or ["none"]

    def _ask(self, arguments: list[str], *, release: bool) -> link.LockQueuesReply:
        client_id, *queue_ids = arguments
        request = link.LockQueues(
            group=GROUP,
            topic=TOPIC,
            queue_ids=map(int, queue_ids),
            client_id=client_id,
            release=release,
        )
        return self.driver.call(lock_queues=request).lock_queues
