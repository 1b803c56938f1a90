"""Send-back: the copy of a message that a consumer failed on goes on its way.

Asked twice, because an answer was lost, it makes two copies: as for any message that is sent, a
consumer may get it more often than once, never less.
"""

from popmq_broker.core.leases.nack import clean_reason
from popmq_broker.core.retries import send_back
from popmq_broker.core.retries.send_back import TO_DEAD_LETTERS, Back, ConsumerFailure
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer_levels import Levels
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.seek import record_at
from popmq_common.errors import BadRequest, IllegalOffset
from popmq_common.records.names import RETRY_PREFIX, classic_retry_topic
from popmq_common.records.record import Record, SysFlag
from popmq_internal.v1 import link_pb2 as link


class SendBack:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, topics: Topics, levels: Levels
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._topics = topics
        self._levels = levels

    async def send_back(self, request: link.SendBack) -> link.SendBackReply:
        """Where the copy is, durable.

        Raises `TopicNotFound`, `GroupNotFound`, `BadRequest`, `IllegalOffset`: the message is not
        there (any more); `DiskFull`.
        """
        runtime = self._runtime
        group = self._catalog_state.group(request.group)
        failure = self._checked(request)
        record = self._record(request)
        back = send_back.decide(
            record,
            failure,
            group.name,
            max_attempts=request.max_attempts or group.max_attempts,
            max_hand_outs=group.max_hand_outs,
            delays_ms=self._levels.delays_ms,
        )
        self._append(record, back)
        self._count(group.name, back)
        await runtime.store.durable(runtime.store.log_end)
        return link.SendBackReply(topic=back.topic, level=back.level)

    def _checked(self, request: link.SendBack) -> ConsumerFailure:
        if not 0 <= request.queue_id < self._catalog_state.topic(request.topic).read_queues:
            raise BadRequest(reason=f"topic {request.topic} has no queue {request.queue_id}")
        own = classic_retry_topic(request.group)
        if request.topic.startswith(RETRY_PREFIX) and request.topic != own:
            raise BadRequest(reason=f"{request.topic} holds retries of another way or group")
        if request.level < TO_DEAD_LETTERS or request.max_attempts < 0:
            asked = f"level {request.level} and {request.max_attempts} attempts"
            text = f"{asked}; -1, 0 or a level, and 0 or more attempts are allowed"
            raise BadRequest(reason=text)
        delay_ms = request.delay_ms if request.HasField("delay_ms") else None
        if delay_ms is not None and delay_ms < 0:
            raise BadRequest(reason=f"a delay of {delay_ms} ms, 0 or more are allowed")
        return ConsumerFailure(
            level=request.level,
            delay_ms=delay_ms,
            counted=not request.uncounted,
            reason=clean_reason(request.reason),
            attempts=max(0, request.attempts),
        )

    def _record(self, request: link.SendBack) -> Record:
        runtime = self._runtime
        place = (request.topic, request.queue_id)
        low = self._catalog_state.min_offset(*place)
        high = runtime.store.max_offset(*place)
        inside = low <= request.offset < high
        record = record_at(runtime.store, *place, request.offset) if inside else None
        if record is None:
            raise IllegalOffset(
                offset=request.offset,
                topic=request.topic,
                queue_id=request.queue_id,
                min_offset=low,
                max_offset=high,
            )
        return record

    def _append(self, record: Record, back: Back) -> None:
        now_ms = self._runtime.clock.now_ms()
        self._topics.ensure_system_copy_target(back.topic)
        draft = copy_of(record, back.topic, 0, back.properties)
        draft = draft._replace(
            reconsume_times=back.reconsume_times, sys_flag=record.sys_flag & ~SysFlag.ROLLBACK
        )
        self._runtime.store.append([self._levels.park(draft, now_ms)], now_ms)

    def _count(self, group: str, back: Back) -> None:
        stats = self._runtime.stats
        stats.sent_back[back.origin, group] += 1
        if back.dead:
            stats.dead[back.origin, group] += 1
