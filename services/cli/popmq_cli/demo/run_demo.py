"""popmq demo: a standalone with console and a shop, until Ctrl-C."""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from popmq import Client
from popmq_cli.demo.shop import Shop, furnish
from popmq_cli.servers.console_beside import beside
from popmq_cli.servers.console_options import INSTALL, is_installed
from popmq_cli.servers.run_standalone import standalone_configs
from popmq_cli.servers.serving import run
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import document, fail
from popmq_cli.shell.parameters import PORT, Number
from popmq_common.process.clock import SystemClock
from popmq_standalone.app import standalone

HOST: Final = "127.0.0.1"
LOOK_AT: Final = (
    ("", "what is wrong: the group reports is stuck"),
    ("groups/billing", "a group, its oldest open messages; why? explains each"),
    ("dead-letters/billing", "orders that failed, by reason: redrive them"),
    ("topics/orders", "messages, read without being received"),
    ("later", "delayed reminders, and payments that nobody settled"),
)


@click.command("demo", cls=Command)
@click.option(
    "--port", type=PORT, default=0, show_default=True, help="Port for clients; 0: any free one."
)
@click.option(
    "--console-port",
    type=PORT,
    default=None,
    help="Port of the web console; 0: any free one.  [default: 8082, if it is free]",
)
@click.option("--seed", type=Number(), default=7, show_default=True, help="Of the shop's chance.")
@json_option
def run_demo(port: int, console_port: int | None, seed: int, as_json: bool) -> None:
    """Try the web console with a small order shop that works, and sometimes fails.

    It ends with Ctrl-C, and nothing is left behind.
    """
    if not is_installed():
        fail(INSTALL)
    with tempfile.TemporaryDirectory(prefix="popmq-demo-") as folder:

        def ready(served: Any) -> None:
            endpoint, url = served
            if as_json:
                document({"endpoint": endpoint, "console": url})
                return
            click.echo(f"A shop at {endpoint} sends, receives and fails. Look at it:")
            for path, text in LOOK_AT:
                click.echo(f"  {url}{path:<22}  {text}")
            click.echo(f"Or: popmq top --endpoint {endpoint}. Ctrl-C ends it.")

        run(_demo(Path(folder), port, console_port, seed), "error", ready)


def _demo(folder: Path, port: int, console_port: int | None, seed: int) -> Callable[[], Any]:
    broker_config, proxy_config = standalone_configs(
        host=HOST, port=port, tls_port=0, data_dir=folder, create_topics=False, flush="sync"
    )

    @asynccontextmanager
    async def start() -> AsyncIterator[tuple[str, str]]:
        async with AsyncExitStack() as stack:
            serving = standalone(broker_config, proxy_config, SystemClock())
            served = await stack.enter_async_context(serving)
            endpoint = f"{HOST}:{served.proxy.port}"
            client = await stack.enter_async_context(Client(endpoint, credentials=False))
            await furnish(client)
            shop = asyncio.create_task(Shop(client, random.Random(seed)).run(), name="shop")
            stack.push_async_callback(_end, shop)
            url = await stack.enter_async_context(beside(served, proxy_config, console_port))
            if url is None:
                url = await stack.enter_async_context(beside(served, proxy_config, 0))
            assert url is not None, "a free port is always found"
            yield endpoint, url

    return start


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
