"""Producers with an open Telemetry stream: whom a question about a topic's transactions can reach.

Nothing here waits: what a stream has no room for is not put, and the caller is told.
"""

from collections import OrderedDict
from collections.abc import Mapping

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_proxy.sessions import Answers


class Producers:
    def __init__(self) -> None:
        self._topics_of: dict[Answers, dict[str, v2.Resource]] = {}
        self._streams: dict[str, OrderedDict[Answers, None]] = {}
        """By topic, whoever was asked last at the end."""

    def publish(self, stream: Answers, topics: Mapping[str, v2.Resource]) -> None:
        """The client of this stream publishes to these, as it says now; empty: to none.

        `topics`: stored name → as the client named it.
        """
        self.gone(stream)
        if topics:
            self._topics_of[stream] = dict(topics)
        for topic in topics:
            self._streams.setdefault(topic, OrderedDict())[stream] = None

    def gone(self, stream: Answers) -> None:
        """The stream has ended."""
        for topic in self._topics_of.pop(stream, {}):
            streams = self._streams[topic]
            del streams[stream]
            if not streams:
                del self._streams[topic]

    def topics(self) -> list[str]:
        """That somebody publishes to."""
        return list(self._streams)

    def name_of(self, topic: str, stream: Answers) -> v2.Resource:
        """The topic as this client named it."""
        return self._topics_of[stream][topic]

    def next(self, topic: str) -> Answers | None:
        """The stream of a producer of the topic, another one at each call; None: none has room."""
        streams = self._streams.get(topic, OrderedDict())
        for stream in list(streams):
            streams.move_to_end(stream)
            if not stream.full():
                return stream
        return None

    def put(self, stream: Answers, command: service.TelemetryCommand) -> None:
        """`stream` is what `next` gave, just now."""
        stream.put_nowait(command)
