"""popmq doctor: find the usual mistakes."""

import asyncio
import socket
import sys
from dataclasses import replace
from typing import Any, Final

import click
import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Tls
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.catalog.topics import TYPES
from popmq_cli.doctor.doctor_probe import is_local, probe, unreachable
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import group_names, topic_names
from popmq_cli.shell.connection import (
    TIMEOUT_S,
    AdminClient,
    PartUnavailable,
    channel,
    check_text,
    client_options,
    endpoints,
)
from popmq_cli.shell.output import EXIT_FAILED, colored, document, note
from popmq_cli.shell.parameters import now_ms
from popmq_common.process.installed import version
from popmq_common.words import counted
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_readings.doctor_checks import Diagnosis, Facts, Listener, findings
from popmq_readings.doctor_surprises import exposed, surprises, unequal

NOBODY: Final = "/"
"""No user's name contains it."""


@click.command(cls=Command)
@click.option(
    "--topic",
    default="",
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Also check this topic and its routes.",
)
@click.option(
    "--type",
    "message_type",
    type=click.Choice(TYPES[:-1], case_sensitive=False),
    help="With --topic: the type of messages you want to send to it.",
)
@click.option(
    "--group",
    default="",
    metavar="GROUP",
    shell_complete=group_names,
    help="Also check that this consumer group exists.",
)
@client_options
def doctor(topic: str, message_type: str | None, group: str, endpoint: str, as_json: bool) -> None:
    """Find common mistakes, and say what to do about each.

    Checks the endpoint and its protocol, TLS, nameservers and brokers, clocks, versions, disks,
    owners of data directories, and groups whose messages nobody receives. Notes tell of groups
    that skipped messages at their start, and of topics that got fewer queues. Nothing is changed.
    Exit code 1: something was found.
    """
    check_text({"topic": topic, "group": group})
    addresses, tls = endpoints(endpoint)
    found: list[Diagnosis] = []
    noted: dict[str, None] = {}  # several endpoints tell of the same brokers
    for address in addresses:
        host, _, port = address.rpartition(":")
        facts = Facts(
            host=host.strip("[]"),
            port=int(port),
            tls=tls is not None,
            topic=topic,
            wanted_type=(message_type or "").upper(),
            group=group,
            version=version(),
        )
        facts = asyncio.run(_find_out(facts, tls))
        wrong = findings(facts)
        if not as_json:
            _show(facts, wrong)
        found += wrong
        if facts.inspected is not None:
            noted |= dict.fromkeys(
                [*exposed(facts), *unequal(facts), *surprises(facts.inspected.brokers)]
            )
    if as_json:
        told = [one._asdict() for one in found]
        document({"endpoint": endpoint, "findings": told, "notes": list(noted)})
    else:
        for text in noted:
            note(f"Note: {text}.")
    sys.exit(EXIT_FAILED if found else 0)


async def _find_out(facts: Facts, tls: Tls | None) -> Facts:
    """Step by step: what cannot be known after a failure is left out."""
    listener, detail = await probe(facts.host, facts.port, tls)
    facts = replace(facts, listener=listener, detail=detail)
    if listener is not Listener.GRPC:
        return facts
    connected = channel(facts.endpoint, tls)
    try:
        return await _ask(facts, connected)
    finally:
        await connected.close(None)


async def _ask(facts: Facts, channel: grpc.aio.Channel) -> Facts:
    stub: admin_grpc.AdminAsyncStub = admin_grpc.AdminStub(channel)
    asked_ms = now_ms()
    try:
        inspected = await stub.Inspect(admin.InspectRequest(), timeout=TIMEOUT_S)
    except grpc.aio.AioRpcError as failed:
        return replace(
            facts,
            inspect_code=failed.code().name,
            inspect_text=failed.details() or "",
            is_nameserver=await _is_nameserver(channel),
        )
    facts = replace(facts, inspected=inspected, asked_ms=asked_ms, answered_ms=now_ms())
    facts = await _with_access(facts)
    if inspected.nameserver_failure or not inspected.brokers:
        return replace(facts, topic="", group="")
    if facts.topic:
        described = await _or_none(stub.DescribeTopic, admin.DescribeTopicRequest(name=facts.topic))
        if described is not None:
            addresses = await _routes(facts, channel)
            facts = replace(
                facts,
                topic_type=described.topic.message_type,
                unreachable=await unreachable(addresses),
            )
    if facts.group:
        request = admin.DescribeGroupRequest(name=facts.group)
        exists = await _or_none(stub.DescribeGroup, request) is not None
        facts = replace(facts, group_exists=exists)
    return facts


async def _with_access(facts: Facts) -> Facts:
    """And whether the server wants to know who asks, if it tells us."""
    facts = replace(facts, is_local=await is_local(facts.host))
    scheme = "https" if facts.tls else "http"
    try:
        async with AdminClient(f"{scheme}://{facts.endpoint}") as stub:
            request = admin.ListUsersRequest(filter=NOBODY)
            response = await stub.ListUsers(request, timeout=TIMEOUT_S)
    except (grpc.aio.AioRpcError, PartUnavailable):
        return facts
    return replace(
        facts, authentication=response.authentication, lacking_users=response.missing_brokers
    )


async def _is_nameserver(channel: grpc.aio.Channel) -> bool:
    try:
        stub = ns_grpc.NameserverStub(channel)
        await stub.ListBrokers(ns.ListBrokersRequest(), timeout=TIMEOUT_S)
    except grpc.aio.AioRpcError:
        return False
    return True


async def _or_none(method: Any, request: Any) -> Any:
    """None: there is no such thing."""
    try:
        return await method(request, timeout=TIMEOUT_S)
    except grpc.aio.AioRpcError as failed:
        if failed.code() is grpc.StatusCode.NOT_FOUND:
            return None
        raise click.ClickException(failed.details() or failed.code().name) from failed


async def _routes(facts: Facts, channel: grpc.aio.Channel) -> list[tuple[str, int]]:
    """Where the server sends clients for the topic, but for the endpoint itself."""
    request = service.QueryRouteRequest(topic=v2.Resource(name=facts.topic))
    request.endpoints.scheme = v2.DOMAIN_NAME
    request.endpoints.addresses.add(host=facts.host, port=facts.port)
    metadata = (("x-mq-client-id", f"popmq-doctor@{socket.gethostname()}"),)
    stub = service_grpc.MessagingServiceStub(channel)
    response = await stub.QueryRoute(request, timeout=TIMEOUT_S, metadata=metadata)
    found = {
        (address.host, address.port)
        for queue in response.message_queues
        for address in queue.broker.endpoints.addresses
    }
    return sorted(found - {(facts.host, facts.port)})


def _show(facts: Facts, found: list[Diagnosis]) -> None:
    for one in found:
        click.echo(f"{colored('✗', 'red')} {one.what}")
        click.echo(f"    why   {one.why}")
        click.echo(f"    do    {one.todo}")
    if found:
        click.echo(f"{counted(len(found), 'problem')} found at {facts.endpoint}.")
        return
    assert facts.inspected is not None
    names = ", ".join(broker.name for broker in facts.inspected.brokers)
    click.echo(f"{colored('✓', 'green')} {facts.endpoint} is well: PopMQ {facts.version}, {names}.")
