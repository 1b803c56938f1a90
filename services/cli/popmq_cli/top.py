"""popmq top: the busiest groups, topics and brokers, again and again."""

import asyncio
import shutil
import signal
import sys
from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.cluster import as_document
from popmq_cli.cluster_remarks import remarks
from popmq_cli.cluster_view import Look, View, view_of
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document
from popmq_cli.terminal import draw, full_screen
from popmq_cli.top_screen import HEIGHT_MIN, WIDTH_MIN, screen

EVERY_S_DEFAULT: Final = 2.0
FIRST_S: Final = 0.5
"""Until the second look: rates come soon."""


@click.command()
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.2, max=3_600),
    default=EVERY_S_DEFAULT,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Look over that time, print it and end.")
@client_options
@running
async def top(every_s: float, once: bool, endpoint: str, as_json: bool) -> None:
    """Watch groups by lag, topics by rate, brokers by load; q or Ctrl-C leaves.

    What is written to a file or pipe, or as JSON, is a page after the other, without a screen.
    """
    async with AdminClient(endpoint) as stub:
        if once:
            before = await _look(stub)
            await asyncio.sleep(every_s)
            _print(view_of(await _look(stub), before), endpoint, as_json)
            return
        leave = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, leave.set)
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            await _watch(stub, endpoint, every_s, leave, as_json=as_json, drawn=False)
            return
        with full_screen(leave):
            await _watch(stub, endpoint, every_s, leave, as_json=False, drawn=True)


async def _watch(
    stub: "admin_grpc.AdminAsyncStub",
    endpoint: str,
    every_s: float,
    leave: asyncio.Event,
    *,
    as_json: bool,
    drawn: bool,
) -> None:
    """Until `leave` is set."""
    before: Look | None = None
    while not leave.is_set():
        look = await _look(stub)
        view = view_of(look, before)
        if drawn:
            size = shutil.get_terminal_size((WIDTH_MIN, HEIGHT_MIN))
            draw(screen(view, remarks(view), endpoint, size.columns, size.lines))
        elif before is not None:
            _print(view, endpoint, as_json)
        pause_s = every_s if before is not None else min(FIRST_S, every_s)
        before = look
        try:
            await asyncio.wait_for(leave.wait(), pause_s)
        except TimeoutError:
            continue


async def _look(stub: "admin_grpc.AdminAsyncStub") -> Look:
    return await stub.ShowCluster(admin.ShowClusterRequest(), timeout=TIMEOUT_S)


def _print(view: View, endpoint: str, as_json: bool) -> None:
    found = remarks(view)
    if as_json:
        document(as_document(view, found))
        return
    size = shutil.get_terminal_size((WIDTH_MIN, HEIGHT_MIN * 2))
    for line in screen(view, found, endpoint, size.columns, max(size.lines, HEIGHT_MIN * 2)):
        click.echo(line)
