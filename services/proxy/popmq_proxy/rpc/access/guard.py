"""Before each RPC: who sends it, and may they?

What was found is kept until the table of users changes: a client's calls of one second carry the
same signature, and ask for the same things.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import AccessDenied, AccessNotKnown, CredentialsRefused, LimitReached
from popmq_proxy.core.access import signature
from popmq_proxy.core.access.decide import AccessVerdict
from popmq_proxy.core.access.limits import Amount
from popmq_proxy.core.access.model import Need, User, UserStatus
from popmq_proxy.core.access.needs import ROWS, Row, of_settings, sent_to
from popmq_proxy.core.access.table import AccessTable, changed_users, judge
from popmq_proxy.core.messages.status import status_of
from popmq_proxy.core.sends.send_decoder import DecodedSend
from popmq_proxy.rpc.access.access_tables import AccessTables
from popmq_proxy.rpc.access.audit_trail import AuditTrail
from popmq_proxy.rpc.access.in_use import Held, end
from popmq_proxy.rpc.access.limiter import Limiter
from popmq_proxy.rpc.messages.send import SendPlan
from popmq_proxy.rpc.shared.client_connection import AdmittedSend
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.sessions import end_stream

SIGNATURES_KEPT: Final = 10_000
VERDICTS_KEPT: Final = 50_000
REFUSED: Final = (CredentialsRefused, AccessDenied, AccessNotKnown, LimitReached)
READS_GRPC_STATUS: Final = ("JAVA", "GO")
"""Clients that learn from the status at the stream's end why they may not open Telemetry: Java
waits 13 s without it, Go says only EOF. It would end a process of Node."""
POLLS: Final = ("ReceiveMessage", "ReceiveRecords", "PullMessage", "Pull")
SLOWED_S: Final = 1.0
SLOWED_MAX: Final = 1_000
"""So many refusals wait at a time; the others are told at once."""
Handler = Callable[[CallContext, Any], Awaitable[Any]]
OnReply = Callable[[Any, Any], None]
Begin = Callable[[CallContext, Any, OnReply], Any]
Telemetry = Callable[
    [CallContext, AsyncIterator[service.TelemetryCommand]], AsyncIterator[service.TelemetryCommand]
]


class Guard:
    def __init__(self, upstream: Upstream, tables: AccessTables, audit: AuditTrail) -> None:
        config = upstream.config
        self._authentication = config.authentication
        self._authorization = config.authorization
        self._window_ms = config.signature_window_ms
        self._upstream = upstream
        self._tables = tables
        self.limiter = Limiter(tables)
        upstream.first_use.check = self.limiter.check_creation
        upstream.first_use.made = self.limiter.take_creation
        self._audit = audit
        self._signatures: dict[tuple[bytes, bytes], tuple[str, int]] = {}
        """What was verified → the user, and until when; 0: as long as the table is in force."""
        self._verdicts: dict[tuple[str, Need, str], AccessVerdict] = {}
        self._senders: set[tuple[str, str, str]] = set()
        """(user, topic, peer) that may send."""
        self._table: object = object()
        """Another one whenever the table of users changes."""
        self._slowed = 0
        self._streams: dict[str, tuple[CallContext, list[Need]]] = {}
        """Client id → who opened Telemetry, and what the settings need."""
        tables.on_change.append(self._changed)

    # --- around handlers ---

    def guarding(self, rpc_service: str, name: str, handler: Handler) -> Handler:
        """`handler`, for those who may. It gets a context that names the user."""
        if not self._authentication:
            return handler
        row = ROWS.get((rpc_service, name))

        async def guarded(ctx: CallContext, request: Any) -> Any:
            try:
                if isinstance(request, SendPlan):  # was checked when its sending was begun
                    known = self.known(ctx, name)
                else:
                    known = self._admitted(ctx, name, row, request)
                held = self.limiter.in_use.begin(known, _received_topic(known, request))
            except REFUSED:
                if name in POLLS:
                    await self._slow_down()
                raise
            if not held:
                return await handler(known, request)
            try:
                return await handler(known, request)
            finally:
                end(held)

        return guarded

    def _admitted(self, ctx: CallContext, name: str, row: Row | None, request: Any) -> CallContext:
        """Whose request it is. Raises one of `REFUSED`."""
        known = self.known(ctx, name)
        if isinstance(request, DecodedSend | service.SendMessageRequest):
            sent = _sent(known, request)
            self.check(known, name, sent_to(sent))
            self.limiter.check_send(known, sent)
            self.limiter.take_send(known, sent)
        elif row is None:
            reason = "it has no row"
            raise AccessDenied(user=known.user, resource=name, address=known.address, reason=reason)
        else:
            self.check(known, name, row(request, known.stored))
        return known

    async def _slow_down(self) -> None:
        """The Go client asks 50 times a second for what it may not receive."""
        if self._slowed < SLOWED_MAX:
            self._slowed += 1
            try:
                await asyncio.sleep(SLOWED_S)
            finally:
                self._slowed -= 1

    def guarding_begin(self, begin: Begin) -> Begin:
        """The same for sends that need no task: who may not is told by the handler."""
        if not self._authentication:
            return begin

        def guarded(ctx: CallContext, request: Any, on_reply: OnReply) -> Any:
            if self._was_admitted(ctx, request):
                return begin(ctx, request, on_reply)
            try:
                known = self._identified(ctx)
                sent = _sent(known, request)
                if not self._may_send(known, request, sent):
                    return request
                if self._admit_alike(known, request):
                    return begin(ctx, request, on_reply)
                self.limiter.check_send(known, sent)
                held = self.limiter.in_use.begin(known)
            except REFUSED:
                return request
            declined = request
            try:
                declined = begin(ctx, request, _giving_back(held, on_reply) if held else on_reply)
            finally:
                if declined is not None:
                    end(held)
            if declined is not request:
                self.limiter.take_send(known, sent)
            return declined

        return guarded

    def _was_admitted(self, ctx: CallContext, request: Any) -> bool:
        """One like it was allowed on this connection, of the same signature, user and topic, and
        nothing has changed since: found by one look."""
        connection = ctx.connection
        if connection is None or not isinstance(request, DecodedSend):
            return False
        send = connection.admitted.get(request.topic_key)
        if send is None or send[0] is not self._table or send[1] != ctx.signature:
            return False
        if send[2] is not ctx.metadata and send[2] != ctx.metadata:
            return False
        return not send[3] or self._upstream.clock.now_ms() < send[3]

    def _admit_alike(self, known: CallContext, request: Any) -> bool:
        """The next ones like it need not be looked at: nothing limits them."""
        if not isinstance(request, DecodedSend):
            return False
        if not self.limiter.is_free(known, known.stored(request.topic)):
            return False
        if known.connection is not None:
            until_ms = self._until_ms(known)
            send = AdmittedSend(self._table, known.signature, known.metadata, until_ms)
            known.connection.admit(request.topic_key, send)
        return True

    def _until_ms(self, ctx: CallContext) -> int:
        kept = self._signatures.get(ctx.signature) if ctx.signature else None
        return kept[1] if kept else 0

    def _may_send(self, known: CallContext, request: Any, sent: dict[str, Amount]) -> bool:
        """What was allowed once on a connection is found by one look."""
        key = None
        if isinstance(request, DecodedSend):
            key = known.user, next(iter(sent)), known.peer
            if key in self._senders:
                return True
        allowed = self._may(known, sent_to(sent))
        if allowed and key is not None:
            if len(self._senders) >= VERDICTS_KEPT:
                self._senders.clear()
            self._senders.add(key)
        return allowed

    def guarding_telemetry(self, handler: Telemetry) -> Telemetry:
        """As RocketMQ does, a refusal is a command with its status, and the end of the stream."""
        if not self._authentication:
            return handler

        async def guarded(
            ctx: CallContext, commands: AsyncIterator[service.TelemetryCommand]
        ) -> AsyncIterator[service.TelemetryCommand]:
            try:
                known = self.known(ctx, "Telemetry")
                answers = handler(known, self._settings_checked(known, commands))
                try:
                    async for answer in answers:
                        yield answer
                finally:
                    await answers.aclose()  # type: ignore[attr-defined]
                    self._streams.pop(known.client_id, None)
            except REFUSED as refused:
                yield service.TelemetryCommand(status=status_of(refused))
                if ctx.language in READS_GRPC_STATUS:
                    raise

        return guarded

    async def _settings_checked(
        self, ctx: CallContext, commands: AsyncIterator[service.TelemetryCommand]
    ) -> AsyncIterator[service.TelemetryCommand]:
        """Raises `AccessDenied`."""
        async for command in commands:
            if command.WhichOneof("command") == "settings":
                needs = of_settings(command.settings, ctx.stored)
                self.check(ctx, "Telemetry", needs)
                self._streams[ctx.client_id] = ctx, needs
            yield command

    # --- who ---

    def known(self, ctx: CallContext, rpc: str) -> CallContext:
        """The same, with the user's name. Raises `CredentialsRefused`, `AccessNotKnown`,
        `LimitReached` for one connection too many."""
        try:
            return self._identified(ctx)
        except CredentialsRefused as refused:
            self._audit.refused("", ctx.address, rpc, "", str(refused))
            raise

    def _identified(self, ctx: CallContext) -> CallContext:
        known = ctx._replace(user=self._user(ctx))
        in_use = self.limiter.in_use
        if in_use.connections.are_limited:
            in_use.admit_connection(known)
        return known

    def _user(self, ctx: CallContext) -> str:
        kept = self._signatures.get(ctx.signature) if ctx.signature else None
        if kept is not None and not kept[1]:
            return kept[0]
        now_ms = self._upstream.clock.now_ms()
        if kept is not None and now_ms < kept[1]:
            return kept[0]
        table = self._tables.current
        try:
            signed = signature.parse(*(ctx.signature or (None, None)))
        except CredentialsRefused:
            if not ctx.certificate_user:
                raise
            return self._enabled(table, ctx.certificate_user).username
        user = self._enabled(table, signed.username)
        found = user.secrets_at(now_ms)
        if not signature.is_of(signed, found):
            raise CredentialsRefused(reason=f"the signature of user {user.username} is wrong")
        if self._window_ms and not signature.is_fresh(signed.date, now_ms, self._window_ms):
            reason = f"its x-mq-date-time {signed.date.decode('ascii', 'replace')} is too old"
            raise CredentialsRefused(reason=reason)
        self._keep_signature(ctx, user, now_ms)
        return user.username

    def _enabled(self, table: AccessTable, username: str) -> User:
        """Raises `CredentialsRefused` for one who is unknown or disabled."""
        user = table.users.get(username)
        if user is None or user.status is not UserStatus.ENABLED:
            what = "unknown" if user is None else "disabled"
            raise CredentialsRefused(reason=f"user {username} is {what}")
        return user

    def _keep_signature(self, ctx: CallContext, user: User, now_ms: int) -> None:
        ends = [one.until_ms for one in user.secrets if one.until_ms > now_ms]
        if self._window_ms:
            ends.append(now_ms + self._window_ms)
        if len(self._signatures) >= SIGNATURES_KEPT:
            self._signatures.clear()
        if ctx.signature is not None:
            self._signatures[ctx.signature] = user.username, min(ends, default=0)

    # --- what ---

    def check(self, ctx: CallContext, rpc: str, needs: Iterable[Need]) -> None:
        """Raises `AccessDenied` for the first that is not allowed."""
        if not self._authorization:
            return
        for need in needs:
            verdict = self._verdict(ctx, need)
            if not verdict.allowed:
                asked = "/".join(action.value for action in need.actions)
                self._audit.refused(ctx.user, ctx.address, rpc, f"{need} {asked}", verdict.reason)
                raise AccessDenied(
                    user=ctx.user,
                    resource=need,
                    address=ctx.address,
                    reason=f"{rpc} needs {asked}; {verdict.reason}",
                )

    def _may(self, ctx: CallContext, needs: Iterable[Need]) -> bool:
        return not self._authorization or all(self._verdict(ctx, need).allowed for need in needs)

    def _verdict(self, ctx: CallContext, need: Need) -> AccessVerdict:
        key = ctx.user, need, ctx.address
        kept = self._verdicts.get(key)
        if kept is not None:
            return kept
        if len(self._verdicts) >= VERDICTS_KEPT:
            self._verdicts.clear()
        verdict = self._verdicts[key] = self.test(ctx.user, need, ctx.address)
        return verdict

    def test(self, username: str, need: Need, address: str) -> AccessVerdict:
        """Raises `AccessNotKnown`."""
        return judge(self._tables.current, username, need, address)

    # --- changes ---

    def _changed(self, before: AccessTable, after: AccessTable) -> None:
        """Waiting polls of users who changed end with nothing; their clients ask again. Telemetry
        of who may no more ends with the reason."""
        self._table = object()
        self._signatures.clear()
        self._verdicts.clear()
        self._senders.clear()
        changed = changed_users(before, after)
        sessions = self._upstream.sessions
        for client_id in sessions.of_users(changed):
            sessions.end_all_polls(client_id)
        for client_id, (ctx, needs) in list(self._streams.items()):
            if ctx.user in changed and (refusal := self._refusal(after, ctx, needs)) is not None:
                self._end(client_id, refusal)

    def _refusal(self, table: AccessTable, ctx: CallContext, needs: list[Need]) -> v2.Status | None:
        try:
            self._enabled(table, ctx.user)
            self.check(ctx, "Telemetry", needs)
        except REFUSED as refused:
            return status_of(refused)
        return None

    def _end(self, client_id: str, refusal: v2.Status) -> None:
        session = self._upstream.sessions.get(client_id)
        if session is None or session.stream is None:
            return
        if not session.stream.full():
            session.stream.put_nowait(service.TelemetryCommand(status=refusal))
        end_stream(session.stream)


def _received_topic(ctx: CallContext, request: Any) -> str | None:
    """As stored. None: the request does not wait for messages."""
    if isinstance(request, service.ReceiveMessageRequest):
        return ctx.stored(request.message_queue.topic)
    return None


def _giving_back(held: Held, on_reply: OnReply) -> OnReply:
    def replied(response: Any, declined: Any) -> None:
        end(held)
        on_reply(response, declined)

    return replied


def _sent(ctx: CallContext, request: DecodedSend | service.SendMessageRequest) -> dict[str, Amount]:
    """How much of it goes to which topic, as stored."""
    if isinstance(request, DecodedSend):
        size = sum(len(record.body) for record in request.records)
        return {ctx.stored(request.topic): Amount(len(request.records), size)}
    sent: dict[str, Amount] = {}
    for message in request.messages:
        name = ctx.stored(message.topic)
        count, size = sent.get(name, Amount(0, 0))
        sent[name] = Amount(count + 1, size + len(message.body))
    return sent
