"""What the commands of each page find: servers, what is in them, and what the page's names mean."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from harness.certificates import self_signed
from harness.page_programs import ENDPOINT, programs_of
from harness.processes import POPMQ, Server, cluster, free_port, standalone

from popmq import Client

ROOMY: Mapping[str, str] = {
    "POPMQ_BROKER_DISK_CLEAN_PERCENT": "100",
    "POPMQ_BROKER_DISK_REFUSE_PERCENT": "100",
}
"""Of the disk of a test's machine nothing is said."""
SHOP = """
from popmq import App

app = App()
app.group("billing", start="first")

@app.handler("orders", "billing")
def bill(body: bytes) -> None:
    print("billed", body.decode())
"""


class Stage(NamedTuple):
    endpoint: str = ""
    """Where commands go that name no server."""
    here: Mapping[str, str] = {}
    """A word of the page → what stands for it here."""
    files: Mapping[str, str] = {}
    """Beside the reader: name → text."""
    variables: Mapping[str, str] = {}
    """Of the reader's shell."""


async def _send(server: Server, count: int) -> None:
    """To all queues in turn."""
    async with Client(server.endpoint) as client:
        await asyncio.gather(*(client.send("orders", b"%d" % one) for one in range(count)))


async def _failed(server: Server) -> str:
    """The id of a message that group billing was given and gave back."""
    async with Client(server.endpoint) as client:
        await client.admin.ensure_group("billing", start="first")
        await client.send("orders", b"7")
        (message,) = await client.receive("orders", "billing")
        await client.nack(message, delay_s=600, reason="database is down")
        return message.message_id


def _one_as_in(shown: str, endpoint: str) -> str:
    (found,) = (one.text for one in programs_of("docs/sdk.md") if shown in one.text)
    return found.replace(ENDPOINT, endpoint)


@contextmanager
def celery(folder: Path) -> Iterator[Stage]:
    with standalone(folder) as server:
        server.cli("group", "create", "billing")
        yield Stage(server.endpoint)


@contextmanager
def doctor(folder: Path) -> Iterator[Stage]:
    certificate, key = self_signed(folder, "localhost")
    env = {"POPMQ_PROXY_TLS_CERT": str(certificate), "POPMQ_PROXY_TLS_KEY": str(key)}
    with standalone(folder, {**env, **ROOMY}) as server:
        server.cli("topic", "create", "orders", "--type", "FIFO")
        server.cli("group", "create", "billing", "--fifo")
        at = f"localhost:{server.endpoint.rpartition(':')[2]}"
        yield Stage(server.endpoint, {"HOST:PORT": at, "ca.pem": str(certificate)})


@contextmanager
def explain(folder: Path) -> Iterator[Stage]:
    with standalone(folder) as server:
        found = asyncio.run(_failed(server))
        yield Stage(server.endpoint, {"01A2B3C4D5E6F70B2C068B0F1100000000": found})


@contextmanager
def export(folder: Path) -> Iterator[Stage]:
    """The page starts the broker."""
    snapshots, data = str(folder / "snapshots"), str(folder / "broker")
    with cluster(folder, brokers=0, proxies=1) as server:
        variables = {
            "POPMQ_BROKER_PORT": str(free_port()),
            "POPMQ_BROKER_DATA_DIR": data,
            "POPMQ_BROKER_NAMESERVERS": server.processes["proxy-1"].env["POPMQ_PROXY_NAMESERVERS"],
        }
        here = {"/var/lib/popmq-snapshots": snapshots, "DIR": snapshots, "DATA": data}
        here["OUT"] = str(folder / "whole")
        yield Stage(server.endpoint, here, variables=variables)


@contextmanager
def kubernetes(folder: Path) -> Iterator[Stage]:
    own = {
        f"broker-{letter}": {"POPMQ_BROKER_NAME": f"popmq-broker-{number}"}
        for number, letter in enumerate("ab", 1)
    }
    with cluster(folder, ROOMY, proxies=1, own=own) as server:
        server.cli("topic", "create", "payments", "--type", "FIFO")
        yield Stage(server.endpoint)


@contextmanager
def offsets(folder: Path) -> Iterator[Stage]:
    with standalone(folder) as server:
        asyncio.run(_send(server, 100))
        server.cli("group", "create", "billing", "--from", "first")
        server.cli("receive", "orders", "--group", "billing", "--ack")
        yield Stage(server.endpoint)


@contextmanager
def operations(folder: Path) -> Iterator[Stage]:
    with standalone(folder, ROOMY) as server:
        server.cli("group", "create", "billing")
        here = {"/var/lib/popmq": str(folder / "data"), "/backup": str(folder / "backup")}
        yield Stage(server.endpoint, here)


@contextmanager
def sdk(folder: Path) -> Iterator[Stage]:
    with standalone(folder) as server:
        tasks = _one_as_in("run_receiver_task", server.endpoint)
        yield Stage(server.endpoint, files={"shop/handlers.py": SHOP, "module.py": tasks})


@contextmanager
def store(folder: Path) -> Iterator[Stage]:
    """A server runs, and another one has stopped; each has its own directory."""
    for name in ("stopped", "running"):
        (folder / name).mkdir()
    with standalone(folder / "stopped") as server:
        asyncio.run(_send(server, 100))
    directory = folder / "stopped" / "data"
    dump = [POPMQ, "store", "dump", str(directory), "--limit", "60", "--json"]
    printed = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    last = json.loads(printed.splitlines()[-1])
    with standalone(folder / "running") as server:
        asyncio.run(_send(server, 100))
        here = {"DIR": str(directory), "HOST:PORT": server.endpoint, "4711": str(last["logOffset"])}
        yield Stage(server.endpoint, here)


ENDS = ("pem", "key")


@contextmanager
def tls(folder: Path) -> Iterator[Stage]:
    """Servers with certificates as the page makes them."""
    tls = folder / "tls"
    init = [POPMQ, "tls", "init", str(tls), "--host", "localhost", "--json"]
    made = json.loads(subprocess.run(init, capture_output=True, check=True).stdout)
    env: dict[str, str] = {}
    for service in made["services"].values():
        env |= service["environment"]
    health = free_port()
    own = {"broker-a": {"POPMQ_BROKER_HEALTH_PORT": str(health)}}
    with cluster(folder, env, brokers=1, proxies=1, own=own) as server:
        used = ["ca.pem"]
        used += [f"{name}.{end}" for name in (*made["services"], "operator") for end in ENDS]
        here = {f"tls/{name}": str(tls / name) for name in used}
        here["queue.example.org:8081"] = server.endpoint
        here["127.0.0.1:9876"] = f"127.0.0.1:{server.processes['nameserver'].port}"
        here["127.0.0.1:5558"] = f"127.0.0.1:{health}"
        yield Stage(server.endpoint, here)


STAGES: Mapping[str, Callable[[Path], AbstractContextManager[Stage]]] = {
    "docs/doctor.md": doctor,
    "docs/explain.md": explain,
    "docs/export.md": export,
    "docs/kubernetes.md": kubernetes,
    "docs/move-from-celery.md": celery,
    "docs/offsets.md": offsets,
    "docs/operations.md": operations,
    "docs/sdk.md": sdk,
    "docs/store.md": store,
    "docs/tls.md": tls,
}
