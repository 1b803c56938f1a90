"""https:// is TLS, and the server has to prove who it is."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from harness.certificates import self_signed
from integration.served import make_group, serving, until

from popmq import Client, ServerUnreachable, Tls


@contextlib.asynccontextmanager
async def certified(folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """The port of a server whose certificate is made out to localhost, and that certificate."""
    certificate, key = self_signed(folder, "localhost")
    async with serving(folder, tls_cert=certificate, tls_key=key) as endpoint:
        await make_group(endpoint, "g")
        yield endpoint.rpartition(":")[2], certificate


async def test_https_is_tls_and_leases_are_renewed_over_it(tmp_path: Path) -> None:
    async with certified(tmp_path) as (port, ca):
        client = Client(f"https://localhost:{port}", tls=Tls.from_files(ca=ca))
        async with client, client.consumer("t", "g", lease_s=0.4) as consumer:
            await client.send("t", b"secret")
            (message,) = await consumer.receive()
            held_until_s = message.held_until_s
            await until(lambda: message.held_until_s > held_until_s)
            await message.ack()


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    async with (
        certified(tmp_path) as (port, _),
        Client(f"https://localhost:{port}", request_timeout_s=1) as client,
    ):
        with pytest.raises(ServerUnreachable, match=r"Tls\.from_files\(ca="):
            await client.send("t", b"secret")


async def test_a_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    async with certified(tmp_path) as (port, ca):
        tls = Tls.from_files(ca=ca)
        async with Client(f"https://127.0.0.1:{port}", tls=tls, request_timeout_s=1) as client:
            with pytest.raises(ServerUnreachable, match="server_name"):
                await client.send("t", b"secret")
        named = Tls.from_files(ca=ca, server_name="localhost")
        async with Client(f"https://127.0.0.1:{port}", tls=named) as client:
            assert (await client.send("t", b"secret")).message_id


async def test_http_is_not_tls(tmp_path: Path) -> None:
    async with (
        certified(tmp_path) as (port, _),
        Client(f"http://localhost:{port}") as client,
    ):
        assert (await client.send("t", b"x")).message_id
