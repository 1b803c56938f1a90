"""What a handler knows besides its request, and what all handlers share."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import (
    BrokerNotFound,
    BrokerUnreachable,
    ClientIdRequired,
    GroupNotFound,
    NameserverDown,
    NoBroker,
    NotFound,
    TopicNotFound,
    Unavailable,
)
from popmq_common.link.sends import SendCall
from popmq_common.process.clock import Clock
from popmq_common.process.logs import Log
from popmq_common.records import receipt
from popmq_common.records.names import check_topic
from popmq_common.units import KiB
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.brokers import Brokers, Replying
from popmq_proxy.clients.route_cache import RouteCache
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.messages.resource import stored_name
from popmq_proxy.core.routing.gathering import Gathering
from popmq_proxy.core.routing.routes import TopicRoutes
from popmq_proxy.producers import Producers
from popmq_proxy.rpc.shared.broker_watches import BrokerWatches
from popmq_proxy.rpc.shared.client_connection import ClientConnection
from popmq_proxy.rpc.shared.first_use import FirstUse
from popmq_proxy.rpc.shared.start_fixer import StartFixer
from popmq_proxy.sessions import Sessions

GROUP_KEPT_S = 20.0
GROUPS_KEPT_MAX = 20_000
WAITING_MAX = 4_096
"""Calls at a time that wait for a broker that is away; more are refused at once."""
WAIT_STEP_S = 0.1
ANSWER_BYTES_MAX = 512 * KiB
"""Of messages in one answer: more would hold up the others while they are read and copied."""
USER_END = "/"
"""Behind a user's name, in which it does not occur."""
ANSWER_MS = 300
"""Of a client's time, kept for the answer that nothing was done."""


class CallContext(NamedTuple):
    """One RPC: who calls, and until when an answer is of use."""

    metadata: Mapping[str, str]
    peer: str
    """The client's address, host:port."""
    deadline_s: float | None
    """On time.monotonic(); None: the client set none."""
    answer_bytes_max: int = ANSWER_BYTES_MAX
    """Of messages that the answer should bring, its first one apart; less where room is little."""
    signature: tuple[bytes, bytes] | None = None
    """authorization and x-mq-date-time of a signed request."""
    certificate_user: str = ""
    """Whom the client's certificate names; only a certificate that was checked is asked."""
    connection: ClientConnection | None = None
    """On which it came; None: its front does not tell."""
    user: str = ""
    """Who sends it; empty where nobody is asked who they are."""

    @property
    def client_id(self) -> str:
        """Of users apart: none can take the leases or end the polls of another one's client by
        calling itself like it. Raises `ClientIdRequired`."""
        client_id = self.metadata.get("x-mq-client-id", "")
        if not client_id.strip():
            raise ClientIdRequired()
        return f"{self.user}{USER_END}{client_id}" if self.user else client_id

    @property
    def address(self) -> str:
        """The client's IP address."""
        return self.peer.rpartition(":")[0].strip("[]")

    @property
    def namespace(self) -> str:
        return self.metadata.get("x-mq-namespace", "")

    @property
    def language(self) -> str:
        return self.metadata.get("x-mq-language", "").upper()

    def remaining_ms(self) -> int | None:
        if self.deadline_s is None:
            return None
        return int((self.deadline_s - time.monotonic()) * 1000)

    def stored(self, resource: v2.Resource) -> str:
        return stored_name(resource, self.namespace)


class Upstream:
    """Routes, brokers and group settings, as all handlers use them."""

    def __init__(
        self, *, config: ProxyConfig, routes: RouteCache, brokers: Brokers, clock: Clock, log: Log
    ) -> None:
        self.config = config
        self.routes = routes
        self.brokers = brokers
        self.clock = clock
        self.log = log
        self.port = config.port
        """Where clients without TLS come in; the real one once the front is bound."""
        self.own_broker = ""
        """The one in this process, if others are elsewhere: calls to it cost least."""
        self.gathering = Gathering()  # of sends to brokers elsewhere
        self.first_use = FirstUse(config)
        self.producers = Producers()
        self.sessions = Sessions(config.sessions_max, config.session_expiry_ms)
        self.stopping = asyncio.Event()
        """The proxy drains: nothing waits for a broker any more."""
        self.starts = StartFixer(
            self.call, brokers.answers, self._starting_at, self._spread_group, clock, log
        )
        self.watches = BrokerWatches(self.call, brokers.answers, routes.readable, log)
        self._groups: dict[str, tuple[float, link.GroupConfig]] = {}
        self._waiting_count = 0

    async def topic_routes(self, topic: str, user: str) -> TopicRoutes:
        """Routes of a user's topic, made on first use if the configuration says so; `user`: whose.

        Raises `IllegalTopic`, `TopicNotFound`, `NameserverDown`, `LimitReached`, `FirstUseLimit`.
        """
        known = self.routes.known(topic)
        if known is not None:
            return known
        check_topic(topic)
        first_use = self.first_use
        try:
            return await self._find_routes(topic)
        except TopicNotFound:
            if not first_use.makes_topics or topic.startswith("%"):
                raise
        first_use.check(user)
        brokers = [info.name for info in await self.routes.brokers()]
        await self.on_reachable_brokers(first_use.topic(topic, brokers))
        first_use.made(user)
        self.log.info("topic.created", topic=topic, user=user)
        self.routes.forget(topic)
        return await self._find_routes(topic)

    async def _find_routes(self, topic: str) -> TopicRoutes:
        """The brokers know their topics too, when no nameserver answers."""
        try:
            return await self.routes.routes(topic)
        except NameserverDown:
            found = await self.ask_brokers(topic)
            if not found:
                raise TopicNotFound(topic=topic) from None
            return self.routes.learn(topic, found)

    async def ask_brokers(self, topic: str) -> list[ns.QueueRoute]:
        """What brokers that answer have of it. Raises `NameserverDown` when no broker is known,
        `Unavailable` when none answers."""
        found, answered = [], False
        for info in await self.routes.brokers():
            call = link.Call(describe=link.Describe(topic=topic))
            try:
                (status,) = (await self.call(info.name, call)).describe.topics
            except TopicNotFound:
                answered = True
            except Unavailable as down:
                self.log.warning("broker.passed_over", broker=info.name, reason=str(down))
            else:
                answered = True
                found.append(ns.QueueRoute(broker=info, topic=status.config))
        if not answered:
            raise NoBroker()
        return found

    async def registered(self, only: str = "") -> list[str]:
        """Every broker, by name; `only`: that one. Raises `NoBroker`, `NameserverDown`,
        `BrokerNotFound`."""
        found = sorted(info.name for info in await self.routes.brokers())
        if not found:
            raise NoBroker()
        if only and only not in found:
            raise BrokerNotFound(broker=only, known=", ".join(found))
        return [only] if only else found

    async def described(self, what: link.Describe) -> dict[str, link.DescribeReply]:
        """Of the brokers that have the topic or the group. Raises what one of them fails with."""
        found = {}
        for broker in await self.registered():
            try:
                found[broker] = (await self.call(broker, link.Call(describe=what))).describe
            except NotFound:
                continue
        return found

    async def on_all_brokers(self, call: link.Call) -> dict[str, link.Reply]:
        """The same call to every broker that is registered; the first failure is raised."""
        replies = {}
        for broker in await self.registered():
            own = link.Call()
            own.CopyFrom(call)
            replies[broker] = await self.call(broker, own)
        return replies

    async def on_reachable_brokers(self, call: link.Call) -> dict[str, link.Reply]:
        """The same call to every broker, for what each can make later on first use.

        One that is down holds up nothing; the error is raised when none answers.
        """
        replies: dict[str, link.Reply] = {}
        failed: Unavailable | None = None
        brokers = [info.name for info in await self.routes.brokers()]
        for broker in [one for one in brokers if self.brokers.answers(one)] or brokers:
            own = link.Call()
            own.CopyFrom(call)
            try:
                replies[broker] = await self.call(broker, own)
            except Unavailable as down:
                self.log.warning("broker.passed_over", broker=broker, reason=str(down))
                failed = down
        if not replies:
            raise failed or NoBroker()
        return replies

    def call(
        self, broker: str, call: link.Call | SendCall, timeout_ms: int | None = None
    ) -> Replying:
        return self.brokers.call(broker, call, timeout_ms or self.config.call_timeout_ms)

    async def call_there(
        self,
        ctx: CallContext,
        broker: str,
        call: link.Call | SendCall,
        timeout_ms: int | None = None,
        handles: Sequence[str] = (),
        again: Callable[[], int] | None = None,
    ) -> link.Reply:
        """What that broker alone can do: while it cannot be reached, in a restart say, the call
        waits for it, as long as its client does, `broker_wait_ms` at most, and not behind the end
        of the leases of `handles`, which the call is about. Nothing is sent twice: unreachable
        means that nothing was. `again` cuts a poll to the rest of its time, which it returns."""
        until_s: float | None = None
        leased_ms: float | None = None
        while True:
            try:
                return await self.call(broker, call, timeout_ms)
            except BrokerUnreachable:
                if not self.routes.knows(broker) or self._waiting_count >= WAITING_MAX:
                    raise
                if leased_ms is None:
                    leased_ms = self._leased_until_ms(ctx, handles)
                if until_s is None:
                    until_s = time.monotonic() + self._wait_ms(ctx) / 1000
                lease_s = (leased_ms - self.clock.now_ms()) / 1000
                left_s = min(until_s - time.monotonic(), lease_s)
                if left_s <= 0 or not await self._wait(min(WAIT_STEP_S, left_s)):
                    raise
            if again is not None:
                timeout_ms = again()

    def _leased_until_ms(self, ctx: CallContext, handles: Sequence[str]) -> float:
        """Without end for no handle, and for a client whose leases the brokers renew: its handles
        do not tell. Raises `InvalidReceiptHandle`."""
        session = self.sessions.get(ctx.client_id)
        if not handles or (session is not None and session.renews):
            return math.inf
        return receipt.last_end_ms(handles)

    def _wait_ms(self, ctx: CallContext) -> int:
        left_ms = ctx.remaining_ms()
        most_ms = self.config.broker_wait_ms
        return most_ms if left_ms is None else max(0, min(most_ms, left_ms - ANSWER_MS))

    async def _wait(self, seconds: float) -> bool:
        """False: the proxy stops, there is no more waiting."""
        self._waiting_count += 1
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return True
        finally:
            self._waiting_count -= 1
        return False

    async def group(self, group: str, user: str) -> link.GroupConfig:
        """The group's settings, made with the defaults on first use, on every broker, if these
        allow it; where policies are asked, what may be made is for those who may Create.

        Raises `IllegalGroup`, `GroupNotFound`, `LimitReached`, `FirstUseLimit`.
        """
        now_s = time.monotonic()
        kept = self._groups.get(group)
        if kept is not None and now_s - kept[0] < GROUP_KEPT_S:
            return kept[1]
        config = await self.group_everywhere(group) or await self._make_as_before(group)
        if config is None:
            if self.config.authorization:
                raise GroupNotFound(group=group)
            self.first_use.check(user)
            create = link.Call(get_group=link.GetGroup(group=group, create=True))
            replies = await self.on_reachable_brokers(create)
            if any(reply.get_group.created for reply in replies.values()):
                self.first_use.made(user)
            config = next(iter(replies.values())).get_group.group
        if len(self._groups) >= GROUPS_KEPT_MAX:
            self._groups.clear()
        self._groups[group] = (now_s, config)
        return config

    async def _make_as_before(self, group: str) -> link.GroupConfig | None:
        """No broker that answers has the group: they get it as it is remembered here. None: it is
        not, or no broker is away that may have it, so it was deleted."""
        kept = self._groups.get(group)
        brokers = await self.routes.brokers()
        if kept is None or all(self.brokers.answers(info.name) for info in brokers):
            return None
        put = link.PutGroup(group=kept[1], only_new=True)
        await self.on_reachable_brokers(link.Call(put_group=put))
        return kept[1]

    async def regain_group(self, group: str, user: str) -> None:
        """A broker does not have it: it was added or away when the group was made, or the group was
        deleted. Now it has it."""
        kept = self._groups.get(group)
        if kept is not None:
            self._groups[group] = (-math.inf, kept[1])
        await self.group(group, user)

    async def call_of_group(
        self, group: str, user: str, broker: str, call: link.Call, timeout_ms: int | None = None
    ) -> link.Reply:
        """A call about a group, which is made on first use; a broker that does not have it, as it
        was added or away then, gets it before."""
        await self.group(group, user)
        try:
            return await self.call(broker, call, timeout_ms)
        except GroupNotFound:
            await self.regain_group(group, user)
            return await self.call(broker, call, timeout_ms)

    async def group_everywhere(self, group: str) -> link.GroupConfig | None:
        """A broker that was added, or was away when the group was made, gets it as the others have
        it. None: no broker that answers has it."""
        known, lacking = [], []
        infos = await self.routes.brokers()
        for info in [one for one in infos if self.brokers.answers(one.name)] or infos:
            call = link.Call(get_group=link.GetGroup(group=group))
            try:
                known.append((await self.call(info.name, call)).get_group.group)
            except GroupNotFound:
                lacking.append(info.name)
            except Unavailable as down:
                self.log.warning("broker.passed_over", broker=info.name, reason=str(down))
        if not known:
            return None
        for broker in lacking:
            put = link.Call(put_group=link.PutGroup(group=known[0], only_new=True))
            try:
                await self.call(broker, put)
            except Unavailable as down:
                self.log.warning("broker.passed_over", broker=broker, reason=str(down))
        return known[0]

    async def _starting_at(self, topic: str) -> set[str]:
        """Brokers that groups may have started at in the topic: all that are registered, and those
        it was made on, which may be away for so long that they are not."""
        found = {info.name for info in await self.routes.brokers()}
        try:
            places = (await self.routes.routes(topic)).group_places
        except TopicNotFound:
            return found
        return found | {broker for broker, _ in places}

    async def _spread_group(self, group: str) -> None:
        if await self.group_everywhere(group) is None:
            await self._make_as_before(group)

    def forget_unused(self) -> None:
        """Sessions, groups and routes that nobody has used for long; called now and then."""
        self.sessions.forget_silent(self.clock.now_ms())
        self.routes.forget_unused()
        old_s = time.monotonic() - GROUP_KEPT_S
        old = {name for name, kept in self._groups.items() if kept[0] < old_s}
        for group in old - self.starts.owed_groups():  # a broker that is away may lack it
            del self._groups[group]

    def forget_group(self, group: str) -> None:
        """It was changed or deleted."""
        self._groups.pop(group, None)
