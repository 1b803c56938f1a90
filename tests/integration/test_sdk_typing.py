"""What a type checker says of a user's file, and what importing the SDK brings."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

GOOD = """
from popmq import App, Client, Json, Message, ReceivedMessage, Retry

app = App("127.0.0.1:8081")

@app.handler("t", "g", concurrency=8, retry=[1, 2.5])
async def plain(message: ReceivedMessage) -> None:
    raise Retry(3, "busy")

@app.handler("t", "g")
def in_a_thread(message: ReceivedMessage) -> None: ...

class Order: ...

class OrderText:
    def encode(self, value: Order) -> bytes:
        return b""
    def decode(self, body: bytes) -> Order:
        return Order()

@app.handler("t", "g", serializer=OrderText())
async def typed(order: Order, message: ReceivedMessage) -> None: ...

async def use(client: Client) -> None:
    await client.producer(requests_max=2).send("t", b"x", keys=["k"])
    await client.producer(OrderText()).send("t", Order())
    await client.producer(Json()).send("t", {"a": 1})
    await client.producer().send_many("t", [Message(body=b"x")])
    async for message in client.consumer("t", "g", held_max=3):
        await message.ack()
"""
WRONG = {
    'await client.producer().send("t", "text")': "arg-type",
    'await client.producer(OrderText()).send("t", b"bytes")': "arg-type",
    'await client.producer().send_many("t", [b"x"])': "list-item",
    "client.producer(retries=3)": "call-overload",
    'client.consumer("t", "g", prefetch_count=3)': "call-arg",
    'app.handler("t", "g", concurrency="8")(plain)': "call-overload",
    'app.handler("t", "g")(typed)': "type-var",
    'app.handler("t", "g", serializer=OrderText())(plain)': "arg-type",
    'Retry("soon")': "arg-type",
    "Message(body=3)": "arg-type",
    "(await client.receive('t', 'g'))[0].ack()": "unused-coroutine",
}


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
    done = subprocess.run(command, capture_output=True, timeout=110, check=False, cwd=tmp_path)
    found: dict[int, str] = {}
    for line in done.stdout.decode().splitlines():
        where, _, text = line.partition(": error: ")
        if text:
            found[int(where.rpartition(":")[2])] = text.rpartition("[")[2].rstrip("]")
    expected = {first + i: code for i, code in enumerate(WRONG.values())}
    assert found == expected, done.stdout.decode()


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
    assert brought <= {"popmq", "popmq_consumer", "apache", "google"} | of_grpc
    wanted = [line for line in requires("popmq") or [] if "extra ==" not in line]
    assert sorted(line.partition(">")[0] for line in wanted) == ["grpcio", "protobuf"]
