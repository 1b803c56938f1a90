"""The Envoy front as an operator sees it: ports, failures at start, the end of a process."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from harness.processes import POPMQ, Server, cluster, free_port, standalone

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc

ME = (("x-mq-client-id", "me"),)


@contextmanager
def stub(server: Server, *, tls: bool = False) -> Iterator[service_grpc.MessagingServiceStub]:
    if not tls:
        with grpc.insecure_channel(server.endpoint) as channel:
            yield service_grpc.MessagingServiceStub(channel)
        return
    host, _, port = server.endpoint.partition(":")
    certificate = ssl.get_server_certificate((host, int(port))).encode()
    trusting = grpc.ssl_channel_credentials(certificate)
    with grpc.secure_channel(f"localhost:{port}", trusting) as channel:
        yield service_grpc.MessagingServiceStub(channel)


def send(client: service_grpc.MessagingServiceStub, body: bytes) -> int:
    message = v2.Message(
        topic=v2.Resource(name="t"),
        body=body,
        system_properties=v2.SystemProperties(message_id="01AB"),
    )
    request = service.SendMessageRequest(messages=[message])
    code: int = client.SendMessage(request, timeout=10, metadata=ME).status.code
    return code


def receive(
    client: service_grpc.MessagingServiceStub, *, poll_s: float = 2
) -> list[service.ReceiveMessageResponse]:
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name="g"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
        batch_size=32,
    )
    request.long_polling_timeout.FromMilliseconds(int(poll_s * 1000))
    return list(client.ReceiveMessage(request, timeout=poll_s + 5, metadata=ME))


def ends(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)  # nothing tells when somebody else's child ends
    return False


def envoys_of(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def running_pid(server: Server, name: str) -> int:
    process = server.processes[name].running
    assert process is not None
    return process.pid


def test_clients_with_and_without_tls_share_the_port(tmp_path: Path) -> None:
    with standalone(tmp_path, front="envoy") as server:
        server.cli("group", "create", "g", "--from", "first")
        with stub(server) as plain, stub(server, tls=True) as secret:
            assert send(plain, b"plain") == v2.OK
            assert send(secret, b"secret") == v2.OK
            messages = [r.message for r in receive(secret) if r.HasField("message")]
            if len(messages) < 2:
                messages += [r.message for r in receive(secret) if r.HasField("message")]
    assert sorted(message.body for message in messages) == [b"plain", b"secret"]
    for message in messages:  # through TLS too it is the client's own address that is stored
        host, _, port = message.system_properties.born_host.partition(":")
        assert host == "127.0.0.1"
        assert int(port) > 1024


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [POPMQ, "standalone", "--front", "envoy", "--port", str(port)],
            cwd=tmp_path,
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert done.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr.decode()


def test_two_servers_never_share_a_port_unseen(tmp_path: Path) -> None:
    with standalone(tmp_path, front="envoy") as server:
        port = server.endpoint.rpartition(":")[2]
        done = subprocess.run(
            [POPMQ, "standalone", "--front", "envoy", "--port", port, "--data-dir", "b"],
            cwd=tmp_path,
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert done.returncode != 0
    assert "cannot listen" in done.stderr.decode()


def test_what_goes_wrong_inside_envoy_is_told_in_one_line(tmp_path: Path) -> None:
    with standalone(tmp_path, front="envoy"):
        command = [POPMQ, "standalone", "--front", "envoy", "--port", str(free_port())]
        done = subprocess.run(
            [*command, "--data-dir", str(tmp_path / "data")],
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert done.returncode != 0
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1
    assert "is used by process" in lines[0] or "in use" in lines[0]


def test_a_waiting_poll_ends_with_an_answer_when_the_server_stops(tmp_path: Path) -> None:
    with standalone(tmp_path, front="envoy") as server, stub(server) as client:
        send(client, b"x")
        receive(client, poll_s=0.1)
        request = service.ReceiveMessageRequest(
            group=v2.Resource(name="g"),
            message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
            batch_size=1,
        )
        request.long_polling_timeout.FromMilliseconds(15_000)
        answer = client.ReceiveMessage(request, timeout=20, metadata=ME)
        time.sleep(0.5)  # until the poll is parked
        began = time.monotonic()
        assert server.processes["standalone"].stop() == 0
        assert next(iter(answer)).status.code == v2.MESSAGE_NOT_FOUND
        assert time.monotonic() - began < 8


def test_envoy_ends_when_nobody_supervises_it_any_more(tmp_path: Path) -> None:
    with standalone(tmp_path, front="envoy") as server:
        pid = running_pid(server, "standalone")
        (envoy,) = envoys_of(pid)
        server.processes["standalone"].kill()
        assert ends(envoy, within_s=10)


def test_the_supervisor_ends_when_its_envoy_does(tmp_path: Path) -> None:
    with standalone(tmp_path, front="envoy") as server:
        process = server.processes["standalone"]
        (envoy,) = envoys_of(running_pid(server, "standalone"))
        os.kill(envoy, signal.SIGKILL)
        assert process.running is not None
        assert process.running.wait(15) != 0
        assert "ended with status -9" in process.log.read_text()


def test_workers_share_a_port_and_envoy_tells_its_figures(tmp_path: Path) -> None:
    admin = free_port()
    env = {"POPMQ_PROXY_WORKERS": "2", "POPMQ_PROXY_ENVOY_ADMIN_PORT": str(admin)}
    with cluster(tmp_path, env, brokers=1, proxies=1, front="envoy") as server:
        for number in range(6):  # connections are spread by the kernel
            with stub(server) as client:
                assert send(client, b"%d" % number) == v2.OK
        for port in (admin, admin + 1):  # the first serves while the second still starts
            assert "envoy_http_downstream_rq_total" in page(f"http://127.0.0.1:{port}")


def page(url: str) -> str:
    """Envoy's figures, as soon as it has them."""
    deadline = time.monotonic() + 15
    while True:
        try:
            with urllib.request.urlopen(f"{url}/stats/prometheus") as found:
                text: bytes = found.read()
            return text.decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # nothing tells when a worker listens


async def test_a_message_of_16_mib_goes_through(tmp_path: Path) -> None:
    env = {"POPMQ_PROXY_BODY_BYTES_MAX": str(20 << 20)}
    with standalone(tmp_path, env, front="envoy") as server:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(server.endpoint, options=options) as channel:
            client = service_grpc.MessagingServiceStub(channel)
            message = v2.Message(
                topic=v2.Resource(name="t"),
                body=os.urandom(16 << 20),
                system_properties=v2.SystemProperties(message_id="01AB"),
            )
            server.cli("group", "create", "g", "--from", "first")
            request = service.SendMessageRequest(messages=[message])
            sent = await client.SendMessage(request, timeout=30, metadata=ME)
            assert sent.status.code == v2.OK
            asked = service.ReceiveMessageRequest(
                group=v2.Resource(name="g"),
                message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
                batch_size=1,
            )
            async with asyncio.timeout(30):
                call = client.ReceiveMessage(asked, timeout=30, metadata=ME)
                bodies = [r.message.body async for r in call if r.HasField("message")]
    assert bodies == [message.body]
