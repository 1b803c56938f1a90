"""When may a client connect to a server of several processes?"""

import socket
from collections.abc import Iterator

import pytest

from popmq_common.process import logs
from popmq_proxy.config import ProxyConfig
from popmq_proxy.workers.listeners import Listeners

HOST = "127.0.0.1"


def made(port: int = 0) -> Listeners:
    return Listeners(ProxyConfig(host=HOST, port=port, tls_port=0), logs.get("test"))


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    one = made()
    yield one
    one.close()


def test_clients_are_refused_until_the_workers_serve(listeners: Listeners) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, listeners.port))
    listeners.listen()
    socket.create_connection((HOST, listeners.port)).close()


def test_a_port_on_which_another_server_listens_is_taken(listeners: Listeners) -> None:
    listeners.listen()
    with pytest.raises(RuntimeError, match=f"cannot listen on {HOST}:{listeners.port}"):
        made(listeners.port)


def test_of_two_that_start_one_gets_the_port(listeners: Listeners) -> None:
    other = made(listeners.port)
    listeners.listen()
    with pytest.raises(RuntimeError, match=f"cannot listen on {HOST}:{listeners.port}"):
        other.listen()
