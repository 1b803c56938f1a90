"""Delivery times that clients ask for, on the clock that the test moves.

A client adds its delay to the real time. The test's clock stands still and jumps, so the server in
a test takes how much later than it was sent a message is to come, and counts that from its own now.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apache.rocketmq.v2 import service_pb2 as service
from popmq_proxy.core.messages.convert import millis
from popmq_proxy.front.rpcs import Rpc


def in_test_time(rpc: Rpc, now_ms: Callable[[], int]) -> Rpc:
    """The same RPC, with the delivery times of what is sent moved."""
    if rpc.name != "SendMessage":
        return rpc

    def decode(data: bytes) -> Any:
        request = rpc.decode(data)
        if isinstance(request, service.SendMessageRequest):  # what has a time is read as one
            _move(request, now_ms())
        return request

    return replace(rpc, decode=decode)


def _move(request: service.SendMessageRequest, now_ms: int) -> None:
    for message in request.messages:
        system = message.system_properties
        if system.HasField("delivery_timestamp") and system.HasField("born_timestamp"):
            later_ms = millis(system.delivery_timestamp) - millis(system.born_timestamp)
            system.delivery_timestamp.FromMilliseconds(max(0, now_ms + later_ms))
