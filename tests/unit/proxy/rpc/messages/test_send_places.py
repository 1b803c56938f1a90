"""Which queues a proxy's sends go to: all of a topic's in turn, whatever else is sent."""

from collections import Counter
from math import inf
from types import SimpleNamespace
from typing import Any

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.process import logs
from popmq_common.process.clock import VirtualClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.routing.routes import TopicRoutes
from popmq_proxy.core.sends.send_decoder import DecodedSend
from popmq_proxy.rpc.messages.send import SendHandler
from popmq_proxy.rpc.shared.context import CallContext, Upstream

CONTEXT = CallContext({"x-mq-client-id": "c"}, "peer", None)
QUEUES = 2
EVENLY = {(broker, queue_id): 2 for broker in "ab" for queue_id in range(QUEUES)}


class Brokers:
    """Two that store all, and what they were asked."""

    def __init__(self) -> None:
        self.upstream = Upstream(
            config=ProxyConfig(),
            routes=self,  # type: ignore[arg-type]
            brokers=self,  # type: ignore[arg-type]
            clock=VirtualClock(),
            log=logs.get("test"),
        )
        self.away: set[str] = set()
        self.stored: Counter[tuple[str, str, int]] = Counter()

    def answers(self, broker: str) -> bool:
        return broker not in self.away

    def readable(self, topic: str) -> list[str]:
        return self.known(topic).readable_brokers

    def known(self, topic: str) -> TopicRoutes:
        config = link.TopicConfig(
            name=topic, read_queues=QUEUES, write_queues=QUEUES, perm=6, message_type="MIXED"
        )
        return TopicRoutes(
            ns.QueueRoute(broker=ns.BrokerInfo(name=name), topic=config) for name in "ab"
        )

    def send(self, broker: str, call: Any, timeout_ms: int, on_reply: Any) -> bool:
        on_reply(self._store(broker, call))
        return True

    async def call(self, broker: str, call: Any, timeout_ms: int) -> Any:
        return self._store(broker, call)

    def _store(self, broker: str, call: Any) -> Any:
        self.stored[call.send.topic, broker, call.send.queue_id] += 1
        return SimpleNamespace(send=link.SendReply(queue_offset=0))

    def of(self, topic: str) -> dict[tuple[str, int], int]:
        """(broker, queue id) → how many sends."""
        found = self.stored.items()
        return {(broker, queue): count for (name, broker, queue), count in found if name == topic}


async def as_a_front_does(send: SendHandler, message: v2.Message) -> None:
    request = service.SendMessageRequest(messages=[message])
    declined = send.begin(CONTEXT, request, lambda *_: None)
    if declined is not None:
        encoded = await send.send_message(CONTEXT, declined)
        response = service.SendMessageResponse.FromString(encoded.data)
        assert [entry.status.code for entry in response.entries] == [v2.OK]


def message(topic: str, kind: "v2.MessageType.ValueType" = v2.NORMAL) -> v2.Message:
    made = v2.Message(topic=v2.Resource(name=topic), body=b"b")
    made.system_properties.message_id = "id"
    made.system_properties.message_type = kind
    made.system_properties.born_timestamp.FromSeconds(1)
    return made


async def test_topics_that_are_sent_to_by_turns_fill_all_their_queues() -> None:
    brokers = Brokers()
    send = SendHandler(brokers.upstream)
    for topic in ("left", "right") * 8:
        await as_a_front_does(send, message(topic))
    assert brokers.of("left") == brokers.of("right") == EVENLY


async def test_delayed_messages_fill_all_queues() -> None:
    brokers = Brokers()
    send = SendHandler(brokers.upstream)
    delayed = message("t", v2.DELAY)
    delayed.system_properties.delivery_timestamp.FromMilliseconds(
        brokers.upstream.clock.now_ms() + 1_000
    )
    for _ in range(8):
        await as_a_front_does(send, delayed)
    assert brokers.of("t") == EVENLY


async def test_what_an_absent_broker_would_get_fills_all_queues_of_the_other() -> None:
    brokers = Brokers()
    send = SendHandler(brokers.upstream)
    brokers.away = {"a"}
    for _ in range(8):
        await as_a_front_does(send, message("t"))
    assert brokers.of("t") == {("b", 0): 4, ("b", 1): 4}


async def test_the_first_messages_of_many_topics_do_not_go_to_one_queue() -> None:
    brokers = Brokers()
    send = SendHandler(brokers.upstream)
    for i in range(8):
        await as_a_front_does(send, message(f"t{i}"))
    places = Counter((broker, queue) for _, broker, queue in brokers.stored)
    assert places == EVENLY


async def test_what_a_process_gets_goes_to_its_own_broker() -> None:
    brokers = Brokers()
    brokers.upstream.own_broker = "b"
    send = SendHandler(brokers.upstream)
    for _ in range(8):
        await as_a_front_does(send, message("t"))
    assert brokers.of("t") == {("b", 0): 4, ("b", 1): 4}


async def test_a_message_group_has_its_place_however_its_request_is_decoded() -> None:
    """One request of groups and none, read without protobuf's objects and with them."""
    places = []
    for usual in (True, False):
        brokers = Brokers()
        send = SendHandler(brokers.upstream)
        request = service.SendMessageRequest()
        for group in ("g1", "", "g2", "g3", "g1"):
            one = message("t", v2.FIFO if group else v2.NORMAL)
            one.system_properties.born_host = "host" if usual else "h" * 200
            if group:
                one.system_properties.message_group = group
            request.messages.append(one)
        decoded = send.decode(request.SerializeToString())
        assert isinstance(decoded, DecodedSend) == usual
        encoded = await send.send_message(CONTEXT, decoded)
        response = service.SendMessageResponse.FromString(encoded.data)
        assert [entry.status.code for entry in response.entries] == [v2.OK] * 5
        places.append(brokers.of("t"))
    assert places[0] == places[1]
    assert len(places[0]) > 1


def wait_at(brokers: Brokers, broker: str) -> None:
    """Sends wait for this broker from now on; empty: for none."""
    gathering = brokers.upstream.gathering
    gathering._broker, gathering._until_s = broker, inf if broker else 0.0


async def test_sends_go_where_others_wait_and_all_brokers_get_as_much_in_the_long_run() -> None:
    brokers, waiting = Brokers(), ""
    send = SendHandler(brokers.upstream)
    for number in range(80):
        if number % 5 == 0:  # the four before have left with the one that began
            waiting = ""
        wait_at(brokers, waiting)
        before = brokers.of("t")
        await as_a_front_does(send, message("t"))
        ((broker, _),) = (Counter(brokers.of("t")) - Counter(before)).keys()
        assert broker == (waiting or broker)
        waiting = broker
    assert brokers.of("t") == {(broker, queue): 20 for broker in "ab" for queue in range(QUEUES)}


async def test_nobody_goes_where_a_broker_does_not_answer_or_takes_nothing() -> None:
    brokers = Brokers()
    send = SendHandler(brokers.upstream)
    brokers.away = {"a"}
    wait_at(brokers, "a")
    await as_a_front_does(send, message("t"))
    wait_at(brokers, "of another topic")
    await as_a_front_does(send, message("t"))
    assert {broker for broker, _ in brokers.of("t")} == {"b"}
