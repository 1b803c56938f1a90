"""popmq top: the busiest groups, topics and brokers, again and again."""

import asyncio
import shutil
import signal
import sys
from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.cluster.cluster import as_document
from popmq_cli.cluster.top_screen import HEIGHT_MIN, WIDTH_DEFAULT, screen
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document
from popmq_cli.shell.parameters import Duration
from popmq_cli.shell.terminal import draw, full_screen
from popmq_readings.cluster_view import Look, View, view_of
from popmq_readings.cluster_warnings import cluster_warnings

EVERY_DEFAULT: Final = "2s"
FIRST_S: Final = 0.5
"""Until the second look: rates come soon."""


@click.command(cls=Command)
@click.option(
    "--every",
    "every_ms",
    type=Duration(200, 3_600_000),
    default=EVERY_DEFAULT,
    show_default=True,
    help="Refresh this often.",
)
@click.option(
    "--once", is_flag=True, help="Print one page, measured over the time of --every, and exit."
)
@client_options
@running
async def top(every_ms: int, once: bool, endpoint: str, as_json: bool) -> None:
    """Watch groups by lag, topics by rate and brokers by load. Press q or Ctrl-C to leave.

    Into a file or pipe, or with --json, one page after the other is printed.
    """
    every_s = every_ms / 1000
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
            size = shutil.get_terminal_size((WIDTH_DEFAULT, HEIGHT_MIN))
            draw(screen(view, cluster_warnings(view), endpoint, size.columns, size.lines))
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
    found = cluster_warnings(view)
    if as_json:
        document(as_document(view, found))
        return
    size = shutil.get_terminal_size((WIDTH_DEFAULT, HEIGHT_MIN * 2))
    for line in screen(view, found, endpoint, size.columns, max(size.lines, HEIGHT_MIN * 2)):
        click.echo(line)
