"""popmq doctor: find the usual mistakes."""

import asyncio
import socket
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import click
import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.completion import group_names, topic_names
from popmq_cli.connection import ANSWER_BYTES_MAX, TIMEOUT_S, client_options
from popmq_cli.doctor_checks import Facts, Finding, Listener, findings
from popmq_cli.doctor_probe import probe, unreachable
from popmq_cli.output import EXIT_FAILED, colored, document
from popmq_cli.topics import TYPES
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc

CLIENT_PORT = 8081


@click.command()
@click.option("--tls", is_flag=True, help="Connect with TLS, as the application does.")
@click.option(
    "--topic",
    default="",
    shell_complete=topic_names,
    help="Also look at this topic and its routes.",
)
@click.option(
    "--type",
    "message_type",
    type=click.Choice(TYPES[:-1], case_sensitive=False),
    help="With --topic: the messages that are to be sent to it.",
)
@click.option(
    "--group",
    default="",
    shell_complete=group_names,
    help="Also look whether this consumer group exists.",
)
@client_options
def doctor(
    tls: bool, topic: str, message_type: str | None, group: str, endpoint: str, as_json: bool
) -> None:
    """Find the usual mistakes, and say what to do about each.

    Looked at are the endpoint and its protocol, TLS, nameservers and brokers, clocks, versions,
    disks, who owns the data directories, and groups that nobody consumes for; with --topic and
    --group also those. Nothing is changed. Exit code 1: something was found.
    """
    host, port = _address(endpoint)
    facts = Facts(
        host=host,
        port=port,
        tls=tls,
        topic=topic,
        wanted_type=(message_type or "").upper(),
        group=group,
        version=version("popmq"),
    )
    facts = asyncio.run(_find_out(facts))
    found = findings(facts)
    if as_json:
        document({"endpoint": facts.endpoint, "findings": [one._asdict() for one in found]})
    else:
        _show(facts, found)
    sys.exit(EXIT_FAILED if found else 0)


def _address(endpoint: str) -> tuple[str, int]:
    """Raises `click.BadParameter`."""
    host, sep, port = endpoint.rpartition(":")
    if not sep:
        host, port = endpoint, str(CLIENT_PORT)
    if "://" in endpoint or not host or not (port.isascii() and port.isdigit()):
        text = f"{endpoint!r} is not HOST:PORT, like 127.0.0.1:{CLIENT_PORT}"
        raise click.BadParameter(text, param_hint="--endpoint")
    return host.strip("[]"), int(port)


async def _find_out(facts: Facts) -> Facts:
    """Step by step: what cannot be known after a failure is left out."""
    listener, detail = await probe(facts.host, facts.port, tls=facts.tls)
    facts = replace(facts, listener=listener, detail=detail)
    if listener is not Listener.GRPC:
        return facts
    options = [("grpc.max_receive_message_length", ANSWER_BYTES_MAX)]
    credentials = grpc.ssl_channel_credentials()
    channel = (
        grpc.aio.secure_channel(facts.endpoint, credentials, options)
        if facts.tls
        else grpc.aio.insecure_channel(facts.endpoint, options)
    )
    try:
        return await _ask(facts, channel)
    finally:
        await channel.close(None)


async def _ask(facts: Facts, channel: grpc.aio.Channel) -> Facts:
    stub: admin_grpc.AdminAsyncStub = admin_grpc.AdminStub(channel)
    asked_ms = _now_ms()
    try:
        inspected = await stub.Inspect(admin.InspectRequest(), timeout=TIMEOUT_S)
    except grpc.aio.AioRpcError as failed:
        return replace(
            facts,
            inspect_code=failed.code().name,
            inspect_text=failed.details() or "",
            is_nameserver=await _is_nameserver(channel),
        )
    facts = replace(facts, inspected=inspected, asked_ms=asked_ms, answered_ms=_now_ms())
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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _show(facts: Facts, found: list[Finding]) -> None:
    for one in found:
        click.echo(f"{colored('✗', 'red')} {one.what}")
        click.echo(f"    why   {one.why}")
        click.echo(f"    do    {one.todo}")
    if found:
        click.echo(f"{len(found)} found at {facts.endpoint}.")
        return
    assert facts.inspected is not None
    names = ", ".join(broker.name for broker in facts.inspected.brokers)
    click.echo(f"{colored('✓', 'green')} {facts.endpoint} is well: PopMQ {facts.version}, {names}.")
