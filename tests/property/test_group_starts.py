"""A group starts at one moment at all brokers: no message sent after the answer to its first
receive is ever skipped, whatever brokers are away or restarted, and whichever proxy is asked."""

import random
import tempfile
from pathlib import Path

from harness.broker import QUICK_DISK, EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_broker.core.starts import CLOCKS_DIFFER_MS_MAX, StartKey
from popmq_broker.engine.state import BrokerState
from popmq_internal.v1 import link_pb2 as link

KEY = StartKey(GROUP, TOPIC)
NAMES = ("broker-a", "broker-b", "broker-c")


class StartMachine(RuleBasedStateMachine):
    """Brokers that go and come back, two proxies that forget, one group."""

    @initialize(
        seed=st.integers(0, 2**32),
        brokers=st.integers(2, 3),
        queues=st.integers(1, 3),
        fifo=st.booleans(),
    )
    def begin(self, seed: int, brokers: int, queues: int, fifo: bool) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.engines: dict[str, EngineDriver] = {}
        for name in NAMES[:brokers]:
            first = next(iter(self.engines.values()), None)
            folder = Path(self._folder.name) / name
            self.engines[name] = engine = EngineDriver(folder, like=first, name=name)
            engine.make(queues=queues, start="LAST", fifo=fifo)
        self.away: set[str] = set()
        self.proxies = [self._proxy(), self._proxy()]
        self.clock = next(iter(self.engines.values())).clock
        self.started_ms = 0
        self.sent = 0
        self.wanted: set[str] = set()
        """Sent after the start, and not received yet."""
        self.before: dict[str, int] = {}
        """Sent before the start, and when."""
        self.send()

    def _proxy(self) -> ProxyDriver:
        return ProxyDriver(*self.engines.values(), away=self.away)

    def teardown(self) -> None:
        if not hasattr(self, "engines"):
            return
        try:
            if self.started_ms:
                for name in sorted(self.away, key=lambda one: KEY not in self._state(one).starts):
                    self._come_back(name)
                for _ in range(10):
                    for name in self.engines:
                        self._receive(self.proxies[0], name)
                assert not self.wanted
        finally:
            for engine in reversed(self.engines.values()):
                engine.close()
            self._folder.cleanup()

    def _state(self, name: str) -> BrokerState:
        return self.engines[name].broker.state

    def _present(self) -> list[str]:
        return [name for name in self.engines if name not in self.away]

    @rule()
    def send(self) -> None:
        """To a broker that is there: a producer tries until one takes it."""
        engine = self.engines[self.rng.choice(self._present())]
        body = f"m{self.sent}"
        self.sent += 1
        queue_id = self.rng.randrange(len(self._queue_ids(engine)))
        engine.call(**engine.send_body(body, queue_id=queue_id))
        if self.started_ms:
            self.wanted.add(body)
        else:
            self.before[body] = self.clock.now_ms()

    @staticmethod
    def _queue_ids(engine: EngineDriver) -> range:
        return range(engine.broker.state.topics[TOPIC].write_queues)

    @rule(proxy=st.integers(0, 1))
    def receive(self, proxy: int) -> None:
        """From a broker that is there; all that comes is acked."""
        self._receive(self.proxies[proxy], self.rng.choice(self._present()))

    def _receive(self, driver: ProxyDriver, name: str) -> None:
        queue = v2.MessageQueue(topic=v2.Resource(name=TOPIC), broker=v2.Broker(name=name))
        responses = driver.responses(message_queue=queue, invisible_duration={"seconds": 10})
        assert responses[0].status.code in (v2.OK, v2.MESSAGE_NOT_FOUND), responses[0]
        if not self.started_ms:
            self.started_ms = self.clock.now_ms()
        found = [one.message for one in responses if one.HasField("message")]
        for message in found:
            body = message.body.decode()
            old_ms = self.started_ms - self.before.get(body, self.started_ms)
            assert old_ms <= CLOCKS_DIFFER_MS_MAX, f"{body} was sent long before the start"
            self.wanted.discard(body)
        if found:
            driver.ack(*found)

    @rule()
    def time_passes(self) -> None:
        for engine in self.engines.values():
            engine.advance(0)
        self.clock.advance(self.rng.choice([1, 100, CLOCKS_DIFFER_MS_MAX + 1]))

    @rule()
    @precondition(lambda self: len(self._present()) > 1)
    def go_away(self) -> None:
        self.away.add(self.rng.choice(self._present()))

    @rule(crash=st.booleans())
    @precondition(lambda self: self._may_come_back())
    def come_back(self, crash: bool) -> None:
        name = self.rng.choice(self._may_come_back())
        if crash:
            self.engines[name].crash(self.rng)
        self._come_back(name)

    def _may_come_back(self) -> list[str]:
        """While a broker that knows the start is there, or it knows it itself: what is promised."""
        known = [name for name in self.engines if KEY in self._state(name).starts]
        if not self.started_ms or set(known) & set(self._present()):
            return sorted(self.away)
        return [name for name in sorted(self.away) if name in known]

    def _come_back(self, name: str) -> None:
        self.away.discard(name)
        for proxy in self.proxies:
            proxy.run(proxy.upstream.starts.pay())

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        engine = self.engines[self.rng.choice(sorted(self.engines))]
        if crash:
            engine.crash(self.rng)
        else:
            engine.restart()

    @rule(proxy=st.integers(0, 1))
    def proxy_forgets(self, proxy: int) -> None:
        self.proxies[proxy] = self._proxy()

    @rule()
    def a_queue_more(self) -> None:
        for engine in self.engines.values():
            if len(self._queue_ids(engine)) < 5:
                count = len(self._queue_ids(engine)) + 1
                topic = link.TopicConfig(
                    name=TOPIC, read_queues=count, write_queues=count, message_type="MIXED"
                )
                engine.call(put_topic=link.PutTopic(topic=topic))


StartMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
TestStarts = StartMachine.TestCase
