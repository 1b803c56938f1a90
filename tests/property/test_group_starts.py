"""A group starts at one moment at all brokers: no message sent after the answer to its first
receive, hello or FixStart is ever skipped, whatever brokers are away, restarted or added, whatever
queues and topics come later, and whichever proxy is asked."""

import random
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.broker import QUICK_DISK, EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver
from harness.pulling import pull_through
from harness.settings import say_hello
from harness.start_book import Book
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq import PullConsumer
from popmq.errors import PopMQClientError
from popmq_broker.core.groups.starts import CLOCKS_DIFFER_MS_MAX, StartKey
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.routing.group_starts import StartOf
from popmq_proxy.rpc.shared.start_fixer import FAILED_EVERY_S

NAMES = ("broker-a", "broker-b", "broker-c", "broker-d")
LATER = "u"
"""A topic that is made while the machine runs."""
PULLS, BROADCAST = "pulls", "broadcast"
"""Groups of consumers that pull; `GROUP` receives."""
AT_BROKERS = [StartKey(GROUP, TOPIC), StartKey(GROUP, LATER), StartKey(PULLS, TOPIC)]
"""Whose starts the brokers keep; a broadcast consumer has a file of its own."""
PAID_WITHIN_MS = int(FAILED_EVERY_S * 1000)
LOOKS_BACK_MS = CLOCKS_DIFFER_MS_MAX - PAID_WITHIN_MS
ROUNDS_MAX = 30


class StartMachine(RuleBasedStateMachine):
    """Brokers that go and come back, two proxies that forget, a group that receives, one that
    pulls, and a broadcast consumer."""

    @initialize(
        seed=st.integers(0, 2**32),
        brokers=st.integers(2, 3),
        queues=st.integers(1, 3),
        fifo=st.booleans(),
        made=st.booleans(),
    )
    def begin(self, seed: int, brokers: int, queues: int, fifo: bool, made: bool) -> None:
        self.rng = random.Random(seed)
        self.fifo = fifo
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.engines: dict[str, EngineDriver] = {}
        for name in NAMES[:brokers]:
            self._open(name).make(queues=queues, start="LAST", fifo=fifo)
            if not (made or fifo):  # by its first consumer then
                self.engines[name].call(delete_group=link.DeleteGroup(group=GROUP))
        self.clock = next(iter(self.engines.values())).clock
        sdk_now = patch("popmq.pull.offset_store.now", lambda: _date(self.clock.now_ms()))
        sdk_now.start()
        self._unpatch = sdk_now.stop
        self.away = set(self.rng.sample(list(self.engines), self.rng.randrange(brokers)))
        self.proxies = [self._proxy(), self._proxy()]
        self.pulling: dict[str, PullConsumer] = {}
        self.books = {key: Book() for key in [*AT_BROKERS, StartKey(BROADCAST, TOPIC)]}
        self.sent = self.unpaid_ms = 0
        self._send(TOPIC)

    def _open(self, name: str) -> EngineDriver:
        first = next(iter(self.engines.values()), None)
        self.engines[name] = EngineDriver(Path(self._folder.name) / name, like=first, name=name)
        return self.engines[name]

    def _proxy(self) -> ProxyDriver:
        return ProxyDriver(*self.engines.values(), away=self.away)

    def teardown(self) -> None:
        if not hasattr(self, "books"):
            return
        self._unpatch()
        try:
            with patch("popmq.pull.offset_store.now", lambda: _date(self.clock.now_ms())):
                self._get_everything()
        finally:
            for engine in reversed(self.engines.values()):
                engine.close()
            self._folder.cleanup()

    def _get_everything(self) -> None:
        """All come back, those first that others need; then each group gets what it wants."""
        while self.away:
            name = next((one for one in sorted(self.away) if self._is_safe({one})), None)
            assert name is not None
            self.away.discard(name)
            self.pay_all()
        for _ in range(ROUNDS_MAX):
            for name in self.engines:
                for topic in self._topics(name):
                    if self.books[StartKey(GROUP, topic)].started_ms:
                        self._receive(self.proxies[0], name, topic)
            for group in (PULLS, BROADCAST):
                if self.books[StartKey(group, TOPIC)].started_ms:
                    self._pull(group, self.proxies[0])
        for key, book in self.books.items():
            assert not book.wanted, f"{key} never got {sorted(book.wanted)}"

    # --- what is where ---

    def _state(self, name: str) -> CatalogState:
        return self.engines[name].broker.state.catalog_state

    def _present(self) -> list[str]:
        return [name for name in self.engines if name not in self.away]

    def _topics(self, name: str) -> list[str]:
        return [one for one in (TOPIC, LATER) if one in self._state(name).topics]

    def _is_safe(
        self, changed: Iterable[str] = (), proxies: Iterable[ProxyDriver] | None = None
    ) -> bool:
        """When these brokers go or come back, whoever lacks a start can still be told it: by a
        broker that is there, or by one of the proxies, which owes it and soon pays. That must not
        be too late for what lies there: the other proxy may be asked before, and looks back only
        for some seconds."""
        present = set(self._present()) ^ set(changed)
        tables = [one.upstream.starts._table for one in proxies or self.proxies]
        for key in AT_BROKERS:
            if not self.books[key].started_ms:
                continue
            knowing = {name for name in present if key in self._state(name).starts}
            owed = [dict(table.owed()).get(StartOf(*key), []) for table in tables]
            lacking = present - knowing
            if not lacking or knowing:
                continue
            if not any(lacking <= set(one) for one in owed):
                return False
            if self.books[key].oldest_at(lacking, self.clock.now_ms()) > LOOKS_BACK_MS:
                return False
        return True

    # --- messages ---

    @rule(count=st.integers(1, 4))
    def work(self, count: int) -> None:
        """Messages are sent, received and pulled."""
        for _ in range(count):
            proxy, topic = self.rng.choice(self.proxies), self.rng.choice([TOPIC, TOPIC, LATER])
            what = self.rng.randrange(8)
            if what < 4:
                self._send(topic)
            elif what < 6:
                self._receive_somewhere(proxy, topic)
            else:
                self._pull([PULLS, BROADCAST][what - 6], proxy)

    def _send(self, topic: str) -> None:
        """To a broker that is there and has the topic."""
        brokers = [name for name in self._present() if topic in self._topics(name)]
        if not brokers:
            return
        name = self.rng.choice(brokers)
        queue_id = self.rng.randrange(self._queue_count(name, topic))
        body = f"m{self.sent}"
        self.sent += 1
        message_group = f"{name}-{queue_id}-{self.rng.randrange(2)}" if self.fifo else ""
        call = send_body(body, None, message_group, queue_id=queue_id)
        call["send"].topic = topic
        self.engines[name].call(**call)
        for key, book in self.books.items():
            if key.topic == topic:
                book.sent(body, name, self.clock.now_ms())

    def _queue_count(self, name: str, topic: str) -> int:
        return self._state(name).topics[topic].write_queues

    def _receive_somewhere(self, proxy: ProxyDriver, topic: str) -> None:
        """From a broker that is there; all that comes is acked."""
        brokers = [name for name in self._present() if topic in self._topics(name)]
        if brokers:
            self._receive(proxy, self.rng.choice(brokers), topic)

    def _receive(self, driver: ProxyDriver, name: str, topic: str) -> None:
        book = self.books[StartKey(GROUP, topic)]
        place = v2.MessageQueue(topic=v2.Resource(name=topic), broker=v2.Broker(name=name))
        responses = driver.responses(message_queue=place, invisible_duration={"seconds": 10})
        assert responses[0].status.code in (v2.OK, v2.MESSAGE_NOT_FOUND), responses[0]
        book.starts(self.clock.now_ms())
        found = [one.message for one in responses if one.HasField("message")]
        for message in found:
            book.came(message.body.decode())
            if self.fifo:
                message_group = message.system_properties.message_group
                book.came_in_order(message.body.decode(), message_group)
        if found:
            driver.ack(*found, topic=v2.Resource(name=topic))

    @rule(proxy=st.integers(0, 1))
    def hello(self, proxy: int) -> None:
        """A consumer says that it subscribes to both topics, whether they are there or not."""
        assert say_hello(self.proxies[proxy], GROUP, TOPIC, LATER).code == v2.OK
        for topic in (TOPIC, LATER):
            self.books[StartKey(GROUP, topic)].starts(self.clock.now_ms())

    def _pull(self, group: str, driver: ProxyDriver) -> None:
        """A consumer that is not there yet comes to be. What cannot be had just now is tried again
        another time."""
        book = self.books[StartKey(group, TOPIC)]
        try:
            consumer = self.pulling.get(group)
            if consumer is None:
                book.tries(self.clock.now_ms())
                consumer = pull_through(driver, self._consumer(group))
                driver.run(consumer.__aenter__())
                self.pulling[group] = consumer
                book.starts(self.clock.now_ms())
            found = driver.run(consumer.poll(wait_s=0.0))
        except PopMQClientError:
            return
        for message in found:
            book.came(message.body.decode())
            consumer.done(message)

    def _consumer(self, group: str) -> PullConsumer:
        options: dict[str, Any] = {"commit_s": 0.0, "balance_s": 0.0}
        if group == BROADCAST:
            offsets = Path(self._folder.name) / "offsets.json"
            options |= {"queues": "all", "offsets_file": offsets}
        consumer = PullConsumer("127.0.0.1:1", TOPIC, group, **options)
        consumer.connection.client_id = group  # the others of the group do not wait for the dead
        return consumer

    @rule()
    def a_puller_dies(self) -> None:
        self.pulling.pop(self.rng.choice([PULLS, BROADCAST]), None)

    # --- what goes, comes back, or is new ---

    @rule()
    def time_passes(self) -> None:
        """Every proxy pays what it owes now and then."""
        for engine in self.engines.values():
            engine.advance(0)
        passed_ms = self.rng.choice([1, 100, CLOCKS_DIFFER_MS_MAX + 1])
        self.unpaid_ms += passed_ms
        if self.unpaid_ms > PAID_WITHIN_MS:
            self.pay_all()
        self.clock.advance(passed_ms)

    def pay_all(self) -> None:
        self.unpaid_ms = 0
        for proxy in self.proxies:
            self._pay(proxy)

    @rule(proxy=st.integers(0, 1))
    def pay(self, proxy: int) -> None:
        self._pay(self.proxies[proxy])

    @staticmethod
    def _pay(proxy: ProxyDriver) -> None:
        proxy.run(proxy.upstream.starts.pay())

    @rule()
    @precondition(lambda self: len(self._present()) > 1)
    def go_away(self) -> None:
        name = self.rng.choice(self._present())
        if self._is_safe({name}):
            self.away.add(name)

    @rule()
    @precondition(lambda self: self.away)
    def come_back(self) -> None:
        """It is not told at once what it is owed; the others may go before it is, and a consumer
        that asks first may ask either proxy."""
        name = self.rng.choice(sorted(self.away))
        others = self._present()
        if self._is_safe({name}):
            self.away.discard(name)
            self._send(TOPIC)
            for gone in others:
                if self.rng.random() < 0.5 and self._is_safe({gone}):
                    self.away.add(gone)
            self._send(TOPIC)
            if self.rng.random() < 0.5:
                self._receive_somewhere(self.rng.choice(self.proxies), TOPIC)

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        engine = self.engines[self.rng.choice(sorted(self.engines))]
        if crash:
            engine.crash(self.rng)
        else:
            engine.restart()

    @rule(proxy=st.integers(0, 1))
    def proxy_forgets(self, proxy: int) -> None:
        if self._is_safe(proxies=[self.proxies[1 - proxy]]):
            self.proxies[proxy] = self._proxy()
            self.pulling.clear()  # they came through it, or the other one: both come again

    @rule()
    def a_queue_more(self) -> None:
        for name, engine in self.engines.items():
            count = self._queue_count(name, TOPIC)
            if count < 5:
                _make_topic(engine, TOPIC, count + 1)
        self._routes_changed()

    @rule()
    def a_topic_more(self) -> None:
        """At the brokers that are there; at the others when it is made again."""
        for name in self._present():
            if LATER not in self._topics(name):
                _make_topic(self.engines[name], LATER, self.rng.randint(1, 3))
        self._routes_changed()

    @rule()
    @precondition(lambda self: len(self.engines) < len(NAMES))
    def a_broker_more(self) -> None:
        """It gets the topic, and knows no group."""
        name = NAMES[len(self.engines)]
        engine = self._open(name)
        for proxy in self.proxies:
            proxy.add(engine)
        if not self._is_safe():  # nobody could tell it the starts
            self.away.add(name)
        _make_topic(engine, TOPIC, self.rng.randint(1, 3))
        self._routes_changed()

    def _routes_changed(self) -> None:
        """Nameservers tell the proxies at once."""
        for proxy in self.proxies:
            for topic in (TOPIC, LATER):
                proxy.upstream.routes.forget(topic)


def _make_topic(engine: EngineDriver, name: str, queues: int) -> None:
    topic = link.TopicConfig(
        name=name, read_queues=queues, write_queues=queues, message_type="MIXED"
    )
    engine.call(put_topic=link.PutTopic(topic=topic))


def _date(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


StartMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
TestStarts = StartMachine.TestCase
