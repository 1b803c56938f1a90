"""popmq quickstart: the whole way of one message, shown step by step."""

import tempfile
import time
from pathlib import Path
from typing import Any

import click
import uvloop

from popmq import Client
from popmq_cli.messages.messages import ensure_group
from popmq_cli.servers.run_standalone import standalone_configs
from popmq_cli.shell.commands import Command
from popmq_cli.shell.output import document
from popmq_cli.shell.parameters import StartAt
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_standalone.app import standalone

TOPIC = "hello"
GROUP = "quickstart"


@click.command("quickstart", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def run_quickstart(as_json: bool) -> None:
    """Try it: start a server, send a message, receive it, acknowledge it and stop.

    Nothing is left behind.
    """
    logs.configure("warning")
    with tempfile.TemporaryDirectory(prefix="popmq-") as folder:
        result = uvloop.run(_quickstart(Path(folder), quiet=as_json))
    if as_json:
        document(result)


async def _quickstart(folder: Path, *, quiet: bool) -> dict[str, Any]:
    def tell(text: str) -> None:
        if not quiet:
            click.echo(text)

    broker_config, proxy_config = standalone_configs(
        host="127.0.0.1", port=0, tls_port=0, data_dir=folder, create_topics=True, flush="sync"
    )
    began = time.perf_counter()
    async with standalone(broker_config, proxy_config, SystemClock()) as serving:
        endpoint = f"127.0.0.1:{serving.proxy.port}"
        start_s = time.perf_counter() - began
        tell(f"Started   nameserver, broker, proxy at {endpoint} in {start_s:.2f} s")
        await ensure_group(endpoint, GROUP, StartAt("FIRST"), quiet=True)
        async with Client(endpoint, credentials=False) as client:
            receipt = await client.send(TOPIC, b"hello, world")
            tell(f"Sent      {receipt.message_id} to topic {TOPIC}; it is on disk")
            (message,) = await client.receive(TOPIC, GROUP, wait_s=5.0)
            attempt = message.delivery_attempt
            tell(f"Received  {message.body.decode()!r}, delivery attempt {attempt}")
            await client.ack(message)
            tell("Acked     it will not be redelivered, whatever happens")
    tell("Stopped   cleanly. Run it yourself: popmq standalone")
    return {
        "messageId": receipt.message_id,
        "body": message.body.decode(),
        "deliveryAttempt": attempt,
        "acked": True,
        "startSeconds": round(start_s, 3),
    }
