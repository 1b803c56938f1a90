"""Steps of transcripts about offsets: pulls, commits, searches, resets."""

from typing import Any

from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.steps import duration_ms

from popmq_common.records.record import decode, own_offset
from popmq_internal.v1 import link_pb2 as link


class OffsetSteps:
    driver: EngineDriver
    began_ms: int
    """When the transcript began: durations that say a time count from here."""

    def start(self, word: str) -> dict[str, Any]:
        """Where a group starts, for `EngineDriver.make`."""
        if word in ("first", "last"):
            return {"start": word.upper()}
        return {"start": "TIME", "start_ms": self.began_ms + duration_ms(word)}

    def do_pull(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        offset, count = [*map(int, arguments), 32][:2]
        sql, expression = options.get("sql", ""), options.get("tag", "")
        kind = link.FILTER_KIND_TAG if expression else link.FILTER_KIND_ALL
        pull = link.Pull(
            group=options.get("group", GROUP),
            topic=TOPIC,
            queue_id=int(options.get("queue", "0")),
            offset=offset,
            batch_size=count,
            filter_kind=link.FILTER_KIND_SQL if sql else kind,
            filter_expression=sql or expression,
            client_id=options.get("client", ""),
        )
        reply = self.driver.call(pull=pull).pull
        if reply.locked_by:
            return [f"{reply.locked_by} has the queue"]
        records = [decode(raw, where="pull", log_offset=own_offset(raw)) for raw in reply.records]
        nothing = "corrected" if reply.corrected else "nothing"
        found = " ".join(record.body.decode() for record in records) or nothing
        ends = f"{reply.min_offset} to {reply.max_offset}"
        return [f"{found}; next {reply.next_offset} of {ends}"]

    def do_join(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        request = link.Join(group=GROUP, topic=TOPIC, client_id=arguments[0], session_ms=30_000)
        request.leave = options.get("leave") == "yes"
        return [" ".join(self.driver.call(join=request).join.members) or "left"]

    def do_commit(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        queue_id, offset = int(options.get("queue", "0")), int(arguments[0])
        commit = link.CommitOffset(
            group=GROUP,
            topic=TOPIC,
            queue_id=queue_id,
            offset=offset,
            client_id=options.get("client", ""),
        )
        return [str(self.driver.call(commit_offset=commit).offset.offset)]

    def do_offset(self, _: list[str], options: dict[str, str]) -> list[str]:
        queue_id = int(options.get("queue", "0"))
        request = link.GetOffset(group=GROUP, topic=TOPIC, queue_id=queue_id)
        return [str(self.driver.call(get_offset=request).offset.offset)]

    def do_find(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        queue_id = int(options.get("queue", "0"))
        place = self.place(arguments[0])
        request = link.FindOffset(topic=TOPIC, queue_id=queue_id, **place)
        return [str(self.driver.call(find_offset=request).offset.offset)]

    def do_reset(self, arguments: list[str], options: dict[str, str]) -> list[str]:
        request = link.ResetOffsets(group=GROUP, topic=TOPIC, dry_run=options.get("dry") == "yes")
        if arguments[0].isdigit():
            request.offset = int(arguments[0])
        else:
            request.MergeFrom(link.ResetOffsets(**self.place(arguments[0])))
        if "queue" in options:
            request.queue_id = int(options["queue"])
        reply = self.driver.call(reset_offsets=request).reset_offsets
        rows = [
            f"{row.queue_id}: {row.from_offset} -> {row.to_offset}, {row.fenced} fenced"
            for row in reply.queues
        ]
        return rows + [f"{reply.retries_dropped} retries dropped"] * bool(reply.retries_dropped)

    def place(self, word: str) -> dict[str, Any]:
        known = {"first": link.OFFSET_AT_MIN, "last": link.OFFSET_AT_MAX}
        if word in known:
            return {"at": known[word]}
        return {"at": link.OFFSET_AT_TIME, "time_ms": self.began_ms + duration_ms(word)}
