"""What a command says of a server that does not do what it is asked."""

import asyncio
import json
import subprocess
from typing import Any

import grpc
import pytest
from click.testing import CliRunner, Result
from harness.processes import POPMQ

from popmq_cli.main import main


async def listed(answer: Any) -> Result:
    """`popmq topic list` at a server that does `answer` with each call."""
    server = grpc.aio.server()
    methods = {"ListTopics": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("popmq.admin.v1.Admin", methods)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        command = ["topic", "list", "--endpoint", f"127.0.0.1:{port}"]
        return await asyncio.to_thread(CliRunner().invoke, main, command)
    finally:
        await server.stop(None)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND])
async def test_what_a_server_answers_is_told_as_its_answer(code: grpc.StatusCode) -> None:
    async def answer(request: Any, context: Any) -> None:
        await context.abort(code, "Broker b cannot be reached.")

    result = await listed(answer)
    assert result.output == "popmq: Broker b cannot be reached.\n"
    assert result.exit_code == 1


def test_where_no_server_is_it_says_how_to_start_one() -> None:
    result = CliRunner().invoke(main, ["topic", "list", "--endpoint", "127.0.0.1:1"])
    assert result.output.startswith("popmq: no server answers at 127.0.0.1:1: ")
    assert result.output.endswith("; start one with: popmq standalone\n")
    assert result.exit_code == 3


def test_an_error_as_json_is_all_that_is_on_stderr() -> None:
    done = subprocess.run(
        [POPMQ, "send", "t", "x", "--endpoint", "127.0.0.1:1", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = json.loads(done.stderr)
    assert told["error"].startswith("no server answers: ")
    assert told["exitCode"] == done.returncode == 3
