"""A poll whose broker goes away goes on at another one, and its client notices nothing."""

import asyncio
from pathlib import Path

from harness.processes import cluster

from popmq import Client

ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100"}


def test_a_poll_at_a_broker_that_is_killed_gets_what_the_other_one_has(tmp_path: Path) -> None:
    async def scenario(endpoint: str) -> list[bytes]:
        async with Client(endpoint) as client:
            queues = await client.receiving.brokers("t")
            polls = [
                asyncio.create_task(client.receive("t", "g", wait_s=20.0, invisible_s=30.0))
                for _ in queues  # one waits at each broker
            ]
            await asyncio.sleep(1.0)
            await asyncio.to_thread(server.processes["broker-b"].kill)
            await asyncio.sleep(1.0)
            for number in range(2):
                await client.send("t", b"%d" % number)
            found = []
            for poll in asyncio.as_completed(polls):
                messages = await poll
                found += [message.body for message in messages]
                if len(found) == 2:
                    break
            for waiting in polls:
                waiting.cancel()
            await asyncio.gather(*polls, return_exceptions=True)
            return found

    with cluster(tmp_path, ENV, brokers=2, proxies=1) as server:
        server.cli("topic", "create", "t", "--queues", "1")
        server.cli("group", "create", "g", "--from", "first")
        assert sorted(asyncio.run(scenario(server.endpoint))) == [b"0", b"1"]
