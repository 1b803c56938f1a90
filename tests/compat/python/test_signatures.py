"""One verifier takes what the official Python client signs, and what ours does."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from compat.checks import run
from harness.signed_server import SignedServer
from integration.served import make_group, serving

from popmq import Client, Credentials

SECRET = "geheim-ß-密"
CALLS = {"QueryRoute", "Telemetry", "SendMessage"}


@pytest.mark.parametrize("secret", [SECRET, "wrong"])
async def test_both_are_verified(tmp_path: Path, python: Path, home: Path, secret: str) -> None:
    async def official(endpoint: str) -> Any:
        script = str(Path(__file__).with_name("signing.py"))
        env = {**os.environ, "HOME": str(home), "SECRET": secret}
        command = [str(python), script, endpoint, "t", "g", "alice"]
        return await asyncio.to_thread(run, command, env)

    async def ours(endpoint: str) -> Any:
        async with Client(endpoint, credentials=Credentials("alice", secret)) as client:
            try:
                sent = await client.send("t", b"signed")
                (message,) = await client.receive("t", "g")
                await message.ack()
            except Exception as failed:
                return {"error": f"{type(failed).__name__}: {failed}"}
            return {"sent": sent.message_id, "received": message.message_id}

    async with serving(tmp_path) as behind:
        await make_group(behind, "g")
        for client in (official, ours):
            server = SignedServer(behind, {"alice": SECRET})
            async with server.serving() as endpoint:
                found = await client(endpoint)
            if secret == SECRET:
                assert found["sent"] == found["received"]
                acks = "AckMessage" if client is official else "AckRuns"
                assert set(server.heard) >= {*CALLS, acks}
                assert server.refused == []
            else:
                assert "error" in found
                assert server.refused
