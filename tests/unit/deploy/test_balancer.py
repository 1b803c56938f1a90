"""The balancer asks each proxy how it is: is what it sends a call of the health service?"""

import re
from pathlib import Path

from grpc_health.v1 import health_pb2
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

CONFIGURATION = Path(__file__).resolve().parents[3] / "deploy/balancer/haproxy.cfg"


def test_its_check_is_a_call_of_grpc_health() -> None:
    text = CONFIGURATION.read_text()
    sent = bytes.fromhex("".join(re.findall(r"tcp-check send-binary (\w+)", text)))
    server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    server.initiate_connection()
    events = server.receive_data(sent)
    (request,) = [event for event in events if isinstance(event, RequestReceived)]
    headers = {str(name): str(value) for name, value in request.headers or []}
    assert headers[":path"] == "/grpc.health.v1.Health/Check"
    assert headers["content-type"] == "application/grpc"
    body = b"".join(event.data or b"" for event in events if isinstance(event, DataReceived))
    assert body == _framed(health_pb2.HealthCheckRequest())
    assert any(isinstance(event, StreamEnded) for event in events)


def test_it_takes_serving_alone_for_well() -> None:
    (expected,) = re.findall(r"tcp-check expect binary (\w+)", CONFIGURATION.read_text())
    response = health_pb2.HealthCheckResponse
    assert bytes.fromhex(expected) == _framed(response(status=response.SERVING))
    assert bytes.fromhex(expected) != _framed(response(status=response.NOT_SERVING))


def _framed(message: health_pb2.HealthCheckRequest | health_pb2.HealthCheckResponse) -> bytes:
    data: bytes = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data
