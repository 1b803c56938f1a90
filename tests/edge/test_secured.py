"""The balancer of Compose before proxies that let in nobody without TLS and a certificate: what
deploy/secured.yml tells it, with the files of popmq tls."""

import asyncio
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.processes import STOP_S, Server, cluster, free_port
from harness.secured_cluster import DEPLOY, first_user, settings, variables
from integration.served import popmq

from popmq import AccessDenied, Client, ServerUnreachable, Tls

CHECKED_S = 20.0


@contextmanager
def balancer(server: Server, folder: Path) -> Iterator[tuple[int, int]]:
    """(port for clients, port for operators)"""
    clients, operators = free_port(), free_port()
    text = (DEPLOY / "balancer/haproxy.cfg").read_text()
    text = text.replace("bind :8081", f"bind 127.0.0.1:{clients}")
    text = text.replace("bind :8405", f"bind 127.0.0.1:{operators}")
    places = "".join(
        f"    server {name} {place} check\n"
        for name, place in (("one", server.endpoint), ("two", server.other_endpoint))
    )
    text, count = re.subn(r" *server-template .*\n", places, text)
    assert count == 1
    path = folder / "balancer.cfg"
    path.write_text(text)
    environ = variables("balancer", folder)
    program = shutil.which("haproxy")
    assert program is not None, "haproxy is not installed: docs/edge-proxy.md tells how"
    running = subprocess.Popen([program, "-db", "-f", str(path)], env=environ)
    try:
        yield clients, operators
    finally:
        running.kill()
        running.wait(STOP_S)


def until_both_are_well(operators: int) -> None:
    """By the balancer's own checks: before the first it believes in each."""
    well = re.compile(r'haproxy_server_check_status\{proxy="proxies",server="\w+",state="L7OK"\} 1')
    deadline_s, page = time.monotonic() + CHECKED_S, ""
    while time.monotonic() < deadline_s:
        with suppress(OSError):
            url = f"http://127.0.0.1:{operators}/metrics"
            with urllib.request.urlopen(url, timeout=5) as answer:
                page = answer.read().decode()
        if len(well.findall(page)) == 2:
            return
        time.sleep(0.1)
    raise AssertionError(re.findall(r"haproxy_server_check_status.* 1", page))


async def sends(port: int, folder: Path) -> None:
    """As the first user, whom the proxies make when the broker has told that there is none."""
    tls = Tls.from_files(
        ca=folder / "ca.pem", certificate=folder / "operator.pem", key=folder / "operator.key"
    )
    endpoint = f"https://localhost:{port}"
    async with asyncio.timeout(60), Client(endpoint, tls=tls, credentials=False) as client:
        while True:
            with suppress(ServerUnreachable, AccessDenied):
                await client.admin.ensure_topic("t")
                assert (await client.send("t", b"x")).message_id
                return


def test_its_checks_and_clients_connections_reach_such_proxies(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    popmq("tls", "init", str(folder))
    popmq("tls", "client", str(folder), "check")
    first_user(folder)
    shutil.copy(folder / "check.key", folder / "check.pem.key")
    with (
        cluster(tmp_path, settings(folder), brokers=1, proxies=2) as server,
        balancer(server, folder) as (port, operators),
    ):
        until_both_are_well(operators)
        asyncio.run(sends(port, folder))
        server.processes["proxy-1"].stop()
        asyncio.run(sends(port, folder))
