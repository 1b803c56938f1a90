import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import grpc
import pytest
from click.testing import CliRunner, Result
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import HealthServicer
from harness.link import LOG
from harness.processes import free_port

from popmq_broker.rpc.health import health as broker_health
from popmq_cli.cluster.health import health
from popmq_cli.shell.output import EXIT_FAILED, EXIT_UNREACHABLE
from popmq_common.tls.files import TlsFiles

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
NO_TLS = TlsFiles(setting="POPMQ_BROKER_LINK_TLS")


def probe(target: str) -> Result:
    return CliRunner().invoke(health, [target])


@contextmanager
def grpc_service(status: "health_pb2.HealthCheckResponse.ServingStatus") -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1))
    servicer = HealthServicer()
    servicer.set("", status)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def http_service(answer: bytes) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(answer)

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()


def test_serving_is_well() -> None:
    with grpc_service(SERVING) as target:
        assert probe(target).exit_code == 0


def test_not_serving_is_not() -> None:
    with grpc_service(NOT_SERVING) as target:
        assert probe(target).exit_code == EXIT_FAILED


def test_a_page_is_well() -> None:
    with http_service(b"HTTP/1.0 200 OK\r\n\r\n") as target:
        assert probe(target).exit_code == 0


@pytest.mark.parametrize("answer", [b"HTTP/1.0 500 Oh\r\n\r\n", b"\0\0\x12", b""])
def test_any_other_answer_is_not_and_takes_one_line(answer: bytes) -> None:
    with http_service(answer) as target:
        result = probe(target)
    assert result.exit_code == EXIT_UNREACHABLE
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("target", ["127.0.0.1:{}", "http://127.0.0.1:{}/"])
def test_nobody_there_takes_one_line(target: str) -> None:
    result = probe(target.format(free_port()))
    assert result.exit_code == EXIT_UNREACHABLE
    assert result.stderr.count("\n") == 1, result.stderr


def test_the_probe_of_containers_has_the_same_exit_codes() -> None:
    def exit_code(target: str) -> int:
        command = [sys.executable, "-m", "popmq_cli.cluster.probe", target]
        return subprocess.run(command, capture_output=True, timeout=60).returncode

    with grpc_service(SERVING) as target:
        assert exit_code(target) == 0
    with grpc_service(NOT_SERVING) as target:
        assert exit_code(target) == EXIT_FAILED
    assert exit_code(target) == EXIT_UNREACHABLE


def test_a_server_without_the_health_service_is_not_well() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert probe(f"127.0.0.1:{port}").exit_code == EXIT_FAILED
    finally:
        server.stop(None).wait()


async def test_a_broker_is_well_until_it_stops() -> None:
    async with broker_health("127.0.0.1", free_port(), NO_TLS, LOG) as port:
        target = f"127.0.0.1:{port}"
        assert (await asyncio.to_thread(probe, target)).exit_code == 0
    assert (await asyncio.to_thread(probe, target)).exit_code == EXIT_UNREACHABLE


async def test_a_broker_without_the_port_has_no_such_service() -> None:
    async with broker_health("127.0.0.1", 0, NO_TLS, LOG) as port:
        assert port == 0
