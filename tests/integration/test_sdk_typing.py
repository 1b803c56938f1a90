"""What a type checker says of a user's file, and what importing the SDK brings."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

GOOD = """
from collections.abc import Awaitable, Callable
from typing import Annotated
from fast_depends import Depends
from popmq import App, Client, Json, Message, Model, ReceivedMessage, Retry
from popmq.otel import OpenTelemetry
from pydantic import BaseModel

app = App("127.0.0.1:8081", instrumentation=OpenTelemetry())

@app.handler("t", "g", concurrency=8, retry=[1, 2.5])
async def plain(message: ReceivedMessage) -> None:
    raise Retry(3, "busy")

@app.handler("t", "g")
def in_a_thread(message: ReceivedMessage) -> None: ...

@app.handler("t", "bodies")
async def of_bytes(body: bytes) -> None: ...

class Order: ...

class OrderText:
    def encode(self, value: Order) -> bytes:
        return b""
    def decode(self, body: bytes) -> Order:
        return Order()

@app.handler("t", "g", serializer=OrderText())
async def typed(order: Order, message: ReceivedMessage) -> None: ...

@app.handler("t", "values", serializer=OrderText())
def value_alone(order: Order) -> None: ...

@app.handler("t", "g", serializer=OrderText())
async def injected(
    order: Order, message: ReceivedMessage, limit: Annotated[int, Depends(lambda: 3)]
) -> None: ...

app.topic("t", type="FIFO", queues=2)
app.group("g", start="first", retry=[1, 2.5], max_attempts=3)

@app.middleware
async def timed(
    message: ReceivedMessage, call_next: Callable[[ReceivedMessage], Awaitable[None]]
) -> None:
    await call_next(message)

@app.on_startup
async def opened() -> None:
    await app.client.admin.ensure_group("g", start="last")

class Invoice(BaseModel):
    number: str
    price: int

@app.handler("t", "g", serializer=Model(Invoice))
async def book(invoice: Invoice, message: ReceivedMessage) -> None: ...

async def use(client: Client) -> None:
    await client.producer(Model(Invoice)).send("t", Invoice(number="1", price=30))
    await client.producer(requests_max=2).send("t", b"x", keys=["k"])
    await client.producer(OrderText()).send("t", Order())
    await client.producer(Json()).send("t", {"a": 1})
    await client.producer().send_many("t", [Message(body=b"x")])
    async for message in client.consumer("t", "g", held_max=3):
        await message.ack()
"""
WRONG = {
    'await client.producer().send("t", "text")': ("arg-type", '"str"; expected "bytes"'),
    'await client.producer(OrderText()).send("t", b"bytes")': (
        "arg-type",
        '"bytes"; expected "Order"',
    ),
    'await client.producer(Model(Invoice)).send("t", Order())': (
        "arg-type",
        '"Order"; expected "Invoice"',
    ),
    "client.producer(Model(Order))": ("type-var", '"Order"'),
    'await client.producer().send_many("t", [b"x"])': ("list-item", 'expected "Message"'),
    "client.producer(retries=3)": ("call-overload", '"producer" of "Client"'),
    'client.consumer("t", "g", prefetch_count=3)': ("call-arg", '"prefetch_count"'),
    'app.handler("t", "g", concurrency="8")(plain)': ("call-overload", '"handler" of "App"'),
    'app.handler("t", "g")(typed)': ("type-var", "Callable[[Order, ReceivedMessage]"),
    'app.handler("t", "g", serializer=OrderText())(plain)': (
        "arg-type",
        'expected "Callable[[Order]',
    ),
    'app.handler("t", "g", serializer=Model(Invoice))(typed)': (
        "arg-type",
        'expected "Callable[[Invoice]',
    ),
    'app.group("g", start="earliest")': ("arg-type", "Literal['first', 'last']"),
    'app.topic("t", partitions=3)': ("call-arg", '"partitions"'),
    "app.middleware(plain)": ("type-var", '"middleware" of "App"'),
    'Retry("soon")': ("arg-type", 'expected "float | None"'),
    "Message(body=3)": ("arg-type", '"int"; expected "bytes"'),
    "(await client.receive('t', 'g'))[0].ack()": ("unused-coroutine", "must be used"),
    "Client(instrumentation=3)": ("arg-type", 'expected "Instrumentation | None"'),
}
"""A line of a user's → the code of the error, and what its text has in it."""


@pytest.mark.timeout(300)
def test_wrong_types_are_refused_and_right_ones_are_not(tmp_path: Path) -> None:
    lines = GOOD.strip().splitlines()
    first = len(lines) + 2
    body = "\n".join(f"    {line}" for line in WRONG)
    path = tmp_path / "users_file.py"
    path.write_text("\n".join([*lines, "async def wrong(client: Client) -> None:", body, ""]))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += [
        "--config-file",
        "",
        "--cache-dir",
        str(tmp_path),
        "--hide-error-context",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, timeout=280, check=False, cwd=tmp_path)
    found: dict[int, tuple[str, str]] = {}
    for line in done.stdout.decode().splitlines():
        where, _, text = line.partition(": error: ")
        if text:
            said, _, code = text.rpartition("[")
            found[int(where.rpartition(":")[2])] = (code.rstrip("]"), said)
    assert found.keys() == set(range(first, first + len(WRONG))), done.stdout.decode()
    for (user, (code, part)), said_of_it in zip(WRONG.items(), found.values(), strict=True):
        assert said_of_it[0] == code, (user, said_of_it)
        assert part in said_of_it[1], (user, said_of_it)


def test_importing_the_sdk_needs_grpcio_and_protobuf_alone() -> None:
    code = """
import sys
before = set(sys.modules)
import popmq, popmq.sync
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - set(sys.stdlib_module_names)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    brought = {name for name in done.stdout.decode().split() if not name.startswith("_")}
    of_grpc = {"grpc", "cython_runtime", "typing_extensions", "grpc_tools", "grpc_health"}
    """grpcio needs the third, and takes the last two in where they are installed."""
    assert brought <= {"popmq", "popmq_admin", "popmq_consumer", "apache", "google"} | of_grpc
    wanted = [line for line in requires("popmq") or [] if "extra ==" not in line]
    assert sorted(line.partition(">")[0] for line in wanted) == ["grpcio", "protobuf"]
