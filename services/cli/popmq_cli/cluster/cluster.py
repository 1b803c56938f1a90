"""popmq cluster status: who is there, what they do, and what is wrong, at one glance."""

import asyncio
import sys
from typing import Any, Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.cluster.cluster_settings import settings
from popmq_cli.cluster.trail import trail
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import EXIT_FAILED, colored, document, fields, table
from popmq_cli.shell.parameters import Duration
from popmq_common.words import counted
from popmq_readings.cluster_view import Service, View, view_of
from popmq_readings.cluster_warnings import ClusterWarning, Severity, cluster_warnings
from popmq_readings.replica_remarks import in_sync_count, primary_of
from popmq_readings.short_numbers import (
    NONE,
    NumberText,
    bytes_text,
    count_text,
    percent_text,
    rate_text,
    up_text,
)
from popmq_readings.times import moment

OVER_DEFAULT: Final = "1s"
HEADINGS: Final = (
    ["ROLE", "NAME", "ADDRESS", "VERSION", "UP", "CPU", "MEMORY", "DISK FREE"],
    ["BROKER", "IN/S", "OUT/S", "READY", "IN FLIGHT", "DELAYED", "BLOCKED", "HALF", "DEAD"],
    ["PROXY", "CLIENTS", "CALLS/S", "FAILED/S"],
    ["BROKER", "PRIMARY", "IN SYNC", "NEEDED", "MOST BEHIND"],
)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Show the state, the settings and the audit trail of the cluster; accept a new broker."""


cluster.add_command(settings)
cluster.add_command(trail)


@cluster.command()
@click.option(
    "--over",
    "over_ms",
    type=Duration(100, 60_000),
    default=OVER_DEFAULT,
    show_default=True,
    help="Measure rates over this time.",
)
@client_options
@running
async def status(over_ms: int, endpoint: str, as_json: bool) -> None:
    """Show all services, how busy they are, and what is wrong.

    DELAYED counts messages that are not due yet: delayed by their sender, or given back with a
    delay. A proxy that has just started is missing for a few seconds. Exit code 1: something is
    wrong.
    """
    async with AdminClient(endpoint) as stub:
        before = await stub.ShowCluster(admin.ShowClusterRequest(), timeout=TIMEOUT_S)
        await asyncio.sleep(over_ms / 1000)
        look = await stub.ShowCluster(admin.ShowClusterRequest(), timeout=TIMEOUT_S)
    view = view_of(look, before)
    found = cluster_warnings(view)
    if as_json:
        document(as_document(view, found))
    else:
        _show(view, found, endpoint)
    if any(warning.severity is Severity.WRONG for warning in found):
        sys.exit(EXIT_FAILED)


@cluster.command()
@click.argument("broker")
@client_options
@running
async def accept(broker: str, endpoint: str, as_json: bool) -> None:
    """Accept that a broker has another data directory than before.

    The other brokers remember each broker by its data directory. One that comes back with another
    one has lost what only it held; `popmq cluster status` says so until you accept it.
    """
    async with AdminClient(endpoint) as stub:
        request = admin.AcceptBrokerRequest(name=broker)
        response = await stub.AcceptBroker(request, timeout=TIMEOUT_S)
    if as_json:
        document({"broker": broker, "identity": response.identity})
        return
    click.echo(f"Broker {broker} is accepted with the data directory that it has now.")


def as_document(view: View, found: list[ClusterWarning]) -> dict[str, Any]:
    """What programs get: the answer as it came, the rates, and the warnings."""
    look = fields(view.look)
    rates = {"storedPerSecond": view.in_s, "handedOutPerSecond": view.out_s}
    groups = [
        {
            "group": one.group,
            "topic": one.topic,
            "lag": one.lag,
            "handedOutPerSecond": one.out_s,
            "ackedPerSecond": one.acked_s,
        }
        for one in view.groups
    ]
    topics = [{"topic": one.topic, "storedPerSecond": one.in_s} for one in view.topics]
    told = [
        {
            "severity": warning.severity.value,
            "code": warning.code,
            "what": warning.what,
            "todo": warning.todo,
        }
        for warning in found
    ]
    return {
        **look,
        "rates": {**rates, "ackedPerSecond": view.acked_s},
        "groups": groups,
        "topics": topics,
        "remarks": told,
    }


def _show(view: View, found: list[ClusterWarning], endpoint: str) -> None:
    click.echo(f"{endpoint} at {moment(view.look.now_ms)}: {headline(view)}")
    click.echo()
    table(HEADINGS[0], [_service_row(one) for one in view.services])
    if view.brokers:
        click.echo()
        table(HEADINGS[1], _backlog_rows(view))
    groups = [answer.replicas for answer in view.look.brokers if answer.replicas.replicated]
    if groups:
        click.echo()
        table(HEADINGS[3], [_replicas_row(group) for group in groups])
    click.echo()
    table(HEADINGS[2], [_proxy_row(one) for one in view.services if one.role == "proxy"])
    click.echo()
    if not found:
        click.echo(f"{colored('✓', 'green')} nothing is wrong")
    for warning in found:
        wrong = warning.severity is Severity.WRONG
        click.echo(f"{colored('✗', 'red') if wrong else colored('!', 'yellow')} {warning.what}")
        click.echo(f"    do  {warning.todo}")


def headline(view: View) -> str:
    look = view.look
    parts = [counted(len(look.nameservers), "nameserver")] * bool(look.nameservers)
    parts.append(counted(len(look.brokers), "broker"))
    parts.append(counted(len(look.proxies), "proxy", "proxies"))
    acked, out = rate_text(view.acked_s), rate_text(view.out_s)
    return f"{', '.join(parts)}; {rate_text(view.in_s)} in, {out} out, {acked} acked a second"


def _service_row(one: Service) -> list[object]:
    if one.failure:
        down = colored("does not answer", "red")
        return [one.role, one.name or "-", one.address, down, NONE, NONE, NONE, NONE]
    disk: object = NONE
    if one.disk_total_bytes:
        free = percent_text(one.disk_free_bytes / one.disk_total_bytes)
        disk = type(free)(f"{bytes_text(one.disk_free_bytes)}, {free}")
    return [
        one.role,
        one.name or "-",
        one.address,
        one.version or "older",
        up_text(one.up_ms) if one.up_ms else NONE,
        percent_text(one.cpu),
        bytes_text(one.memory_bytes) if one.memory_bytes else NONE,
        disk,
    ]


def _replicas_row(group: admin.ReplicaGroup) -> list[object]:
    if group.failure:
        return [group.broker, colored("none", "red"), NONE, NONE, NONE]
    in_sync = NumberText(f"{in_sync_count(group)} of {len(group.replicas)}")
    behind = bytes_text(max(one.behind_bytes for one in group.replicas))
    return [group.broker, primary_of(group), in_sync, group.min_in_sync, behind]


def _proxy_row(one: Service) -> list[object]:
    return [one.label, count_text(one.clients), rate_text(one.in_s), rate_text(one.out_s)]


def _backlog_rows(view: View) -> list[list[object]]:
    """One of each broker."""
    rates = {one.name: one for one in view.services if one.role == "broker"}
    rows: list[list[object]] = []
    for answer in view.brokers:
        figures, service = answer.figures, rates[answer.name]
        delayed = figures.timers + sum(one.delayed for one in figures.groups)
        counts = [
            sum(one.ready for one in figures.groups),
            sum(one.in_flight for one in figures.groups),
            delayed,
            sum(one.blocked for one in figures.groups),
            figures.half,
            figures.dead,
        ]
        texts = [count_text(count) for count in counts]
        rows.append([answer.name, rate_text(service.in_s), rate_text(service.out_s), *texts])
    return rows
