"""What `popmq.otel` promises: the conventions' names, no cost without it, and what to install."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.telling import Telling, attributes
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from popmq import App, Client, Message
from popmq.testing import PopmqBroker


async def test_the_names_are_those_of_the_conventions(popmq_broker: PopmqBroker) -> None:
    """OpenTelemetry publishes them as a package; a version that renames one fails here."""
    told = Telling()
    async with Client(popmq_broker.endpoint, instrumentation=told.otel, namespace="n") as made:
        await made.send("orders", b"1", tag="a", keys=["k"], message_group="g")
        await made.send_many("orders", [Message(body=b"2"), Message(body=b"3", delay_s=1)])
        for message in await made.receive("orders", "billing"):
            with told.otel.process(message):
                await message.ack()
    modules = (messaging_attributes, server_attributes, error_attributes)
    known = {str(value) for module in modules for value in vars(module).values()}
    used = {name for one in told.names for span in told.spans(one) for name in attributes(span)}
    assert {name for name in used if not name.startswith("popmq.")} <= known
    assert "messaging.rocketmq.namespace" in used
    kinds = {one.value for one in messaging_attributes.MessagingOperationTypeValues}
    assert {"create", "send", "receive", "process", "settle"} <= kinds
    for name in (
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
        "messaging.process.duration",
    ):
        assert name in vars(messaging_metrics).values(), name
        assert told.measured(name), name


def test_the_lines_of_the_docs_run() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "observability.md").read_text()
    found = re.search(r"```python\n(from opentelemetry.*?)```", text, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    names["provider"].shutdown()
    assert isinstance(names["app"], App)


COUNTING = """
import asyncio, collections, json, sys
from popmq import Client
assert not any(name.startswith("opentelemetry") for name in sys.modules)
calls = collections.Counter()
def count(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("popmq"):
        calls[name] += 1
async def main():
    async with Client(sys.argv[1]) as client:
        sys.setprofile(count)
        await client.send("orders", b"1")
        await client.producer().send("orders", b"2")
        for message in await client.receive("orders", "billing"):
            await message.ack()
        sys.setprofile(None)
asyncio.run(main())
assert not any(name.startswith("opentelemetry") for name in sys.modules)
print(json.dumps(calls))
"""


def test_without_an_instrumentation_nothing_is_called(popmq_broker: PopmqBroker) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, popmq_broker.endpoint],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)
    assert calls["popmq.producer.sending"] > 0  # the count does count
    told = {name for name in calls if name.startswith(("popmq.obser", "popmq.otel"))}
    assert told == set()


def test_without_the_extra_it_says_what_to_install() -> None:
    """A stand-in for an environment that has the SDK alone."""
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try: import popmq.otel\n"
        "except ModuleNotFoundError as told: print(told)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'popmq[otel]'" in done.stdout
