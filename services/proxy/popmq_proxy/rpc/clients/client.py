"""Heartbeat, Telemetry, NotifyClientTermination: who is there and what it wants."""

import asyncio
from collections.abc import AsyncIterator

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest, PopMQError, TopicNotFound
from popmq_common.records.names import check_group, check_topic
from popmq_proxy.core.messages import settings as core_settings
from popmq_proxy.core.messages.settings import GroupSettings
from popmq_proxy.core.messages.status import ok, status_of
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.heartbeats import Heartbeats
from popmq_proxy.sessions import Answers, Session, end_stream

NODE = "HTTP"
"""What the Node client calls its language in the metadata."""
REPEAT_S = 1.0
"""The Node client misses Settings that come while it still asks for routes; they come again."""
COMMANDS_MAX = 64
TOPICS_MAX = 1_024
"""That one client publishes to."""
START_S = 3.0
"""How long Settings wait until the starts of a consumer's group are fixed."""
RECEIVING_TYPES = (v2.PUSH_CONSUMER, v2.SIMPLE_CONSUMER, v2.LITE_PUSH_CONSUMER)
"""Clients that receive; those that pull say themselves where they start."""
RENEWED_TYPES = (v2.PUSH_CONSUMER, v2.LITE_PUSH_CONSUMER)
"""Clients that leave the invisible time to the server."""


class ClientHandler:
    def __init__(self, upstream: Upstream, heartbeats: Heartbeats) -> None:
        self._upstream = upstream
        self._heartbeats = heartbeats

    async def heartbeat(
        self, ctx: CallContext, request: service.HeartbeatRequest
    ) -> service.HeartbeatResponse:
        session = self._seen(ctx)
        if request.client_type in RENEWED_TYPES:
            session.renews = True  # its receives may have come through another proxy
        return service.HeartbeatResponse(status=ok())

    async def terminate(
        self, ctx: CallContext, request: service.NotifyClientTerminationRequest
    ) -> service.NotifyClientTerminationResponse:
        session = self._upstream.sessions.get(ctx.client_id)
        self._upstream.sessions.terminate(ctx.client_id)
        if session is None or session.renews:
            await self._heartbeats.goodbye(ctx.client_id)
        return service.NotifyClientTerminationResponse(status=ok())

    async def telemetry(
        self, ctx: CallContext, commands: AsyncIterator[service.TelemetryCommand]
    ) -> AsyncIterator[service.TelemetryCommand]:
        """Answers each Settings at once, and once more a second after the first.

        Raises what is wrong with the first Settings; the stream ends with it. The Node client waits
        for Settings for ever when it does: it is told by a command, and the stream just ends.
        """
        session = self._seen(ctx)
        answers: Answers = asyncio.Queue(COMMANDS_MAX)
        session.stream, session.peer = answers, ctx.peer
        reading = asyncio.ensure_future(self._read(ctx, commands, answers))
        try:
            while (answer := await answers.get()) is not None:
                yield answer
            if reading.done():  # else the proxy stops, and the client may have more to say
                await reading  # raises what ended it
        except PopMQError as refused:
            if ctx.language != NODE:
                raise
            yield service.TelemetryCommand(status=status_of(refused))
        finally:
            reading.cancel()
            self._upstream.producers.gone(answers)
            if session.stream is answers:
                session.stream = None

    async def _read(
        self,
        ctx: CallContext,
        commands: AsyncIterator[service.TelemetryCommand],
        answers: Answers,
    ) -> None:
        repeat: asyncio.TimerHandle | None = None
        try:
            async for command in commands:
                session = self._seen(ctx)
                if command.WhichOneof("command") != "settings":
                    continue  # answers to commands of ours; none of those we send has one
                answer = await self._settings(ctx, command.settings, session)
                self._publishes(ctx, command.settings, answers)
                await answers.put(answer)
                if repeat is None:
                    loop = asyncio.get_running_loop()
                    repeat = loop.call_later(REPEAT_S, _put_if_room, answers, answer)
        finally:
            if repeat is not None:
                repeat.cancel()
            end_stream(answers)

    async def _settings(
        self, ctx: CallContext, asked: v2.Settings, session: Session
    ) -> service.TelemetryCommand:
        kind = asked.WhichOneof("pub_sub")
        if kind is None:
            raise BadRequest(reason="Settings name neither publishing nor subscription")
        group = GroupSettings()
        if kind == "publishing":
            if len(asked.publishing.topics) > TOPICS_MAX:
                count = len(asked.publishing.topics)
                raise BadRequest(reason=f"{count} topics, at most {TOPICS_MAX} are allowed")
            for topic in asked.publishing.topics:
                check_topic(ctx.stored(topic))
        else:
            name = ctx.stored(asked.subscription.group)
            check_group(name)
            found = await self._upstream.group(name, ctx.user)
            await self._starts(ctx, asked, name)
            group = GroupSettings(
                fifo=found.fifo,
                max_attempts=found.max_attempts,
                retry_policy=found.retry_policy if found.HasField("retry_policy") else None,
            )
        config = self._upstream.config
        merged = core_settings.merge(
            asked,
            group=group,
            body_bytes_max=config.body_bytes_max,
            poll_ms_max=config.poll_ms_max,
        )
        session.settings = asked
        return service.TelemetryCommand(status=ok(), settings=merged)

    async def _starts(self, ctx: CallContext, asked: v2.Settings, group: str) -> None:
        """A consumer's group starts now, at the latest. What cannot be fixed within `START_S` is
        fixed later, at its first receive at the latest, and as of now."""
        if asked.client_type not in RECEIVING_TYPES:
            return
        entries = asked.subscription.subscriptions
        if len(entries) > TOPICS_MAX:
            raise BadRequest(reason=f"{len(entries)} topics, at most {TOPICS_MAX} are allowed")
        topics = {ctx.stored(entry.topic) for entry in entries}
        starting = [asyncio.ensure_future(self._start(group, topic)) for topic in sorted(topics)]
        if starting:
            _, late = await asyncio.wait(starting, timeout=START_S)
            for task in late:
                task.cancel()

    async def _start(self, group: str, topic: str) -> None:
        upstream = self._upstream
        try:
            check_topic(topic)
            upstream.starts.heard(group, topic)
            try:
                brokers = (await upstream.routes.routes(topic)).readable_brokers
            except TopicNotFound:  # it will be read from its first message
                brokers = [info.name for info in await upstream.routes.brokers()]
            await upstream.starts.fix(group, topic, brokers)
        except PopMQError as failed:
            upstream.log.warning("start.not_fixed", group=group, topic=topic, reason=str(failed))

    def _publishes(self, ctx: CallContext, asked: v2.Settings, answers: Answers) -> None:
        topics = {ctx.stored(topic): topic for topic in asked.publishing.topics}
        self._upstream.producers.publish(answers, topics)

    def _seen(self, ctx: CallContext) -> Session:
        return self._upstream.sessions.seen(ctx.client_id, self._upstream.clock.now_ms())


def _put_if_room(answers: Answers, answer: service.TelemetryCommand) -> None:
    if not answers.full():
        answers.put_nowait(answer)
