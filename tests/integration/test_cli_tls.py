"""The command line with TLS: --endpoint https://…, --tls, --tls-ca; the server proves who it is."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness.certificates import self_signed
from harness.processes import free_port
from integration.served import serving

from popmq.app.launch import TLS_CA_VARIABLE
from popmq_cli.main import main


async def run(*arguments: str) -> tuple[int, str]:
    """The exit code, and what is printed."""
    result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    return result.exit_code, result.output


async def test_what_a_command_does_with_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = self_signed(tmp_path, "localhost")
    async with serving(tmp_path, tls_cert=certificate, tls_key=key) as endpoint:
        at = ("--endpoint", f"https://localhost:{endpoint.rpartition(':')[2]}")
        trusted = ("--tls-ca", str(certificate))
        assert (await run("topic", "create", "hello", *at, *trusted))[0] == 0
        assert (await run("send", "hello", "world", *at, *trusted))[0] == 0
        receive = ("receive", "hello", "--group", "g", "--ack", "--json")
        monkeypatch.setenv(TLS_CA_VARIABLE, str(certificate))
        code, printed = await run(*receive, *at)
        assert (code, json.loads(printed)[0]["body"]) == (0, "world")
        assert (await run("doctor", *at))[0] == 0
        monkeypatch.delenv(TLS_CA_VARIABLE)

        code, printed = await run("topic", "list", *at)
        assert code == 3, "nobody vouches for the certificate"
        assert "--tls-ca FILE" in printed
        other_host = ("--endpoint", endpoint, "--tls", *trusted)
        code, printed = await run("topic", "list", *other_host)
        assert code == 3, "the certificate is for localhost"
        assert "use that host's name in --endpoint" in printed
        assert (await run("topic", "list", "--endpoint", f"http://{endpoint}"))[0] == 0
        assert (await run("topic", "list", "--endpoint", f"http://{endpoint}", "--tls"))[0] == 2


async def test_of_several_servers_one_that_answers_is_used(tmp_path: Path) -> None:
    async with serving(tmp_path) as endpoint:
        several = f"127.0.0.1:{free_port()};{endpoint}"
        assert (await run("topic", "list", "--endpoint", several))[0] == 0
