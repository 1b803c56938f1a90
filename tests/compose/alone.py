"""One container with everything in it, as `docker run` starts it: read-only, no root, 512 MB."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # the context removes it

from compose.traffic import within
from testcontainers.core.container import DockerContainer

from popmq import Client

START_S = 60.0


@asynccontextmanager
async def standalone(image: str, *arguments: str) -> AsyncIterator[Client]:
    """A client of it, by a port of this machine that is not the container's."""
    command = ["standalone", "--host", "0.0.0.0", "--data-dir", "/data", *arguments]
    container = DockerContainer(image).with_command(command).with_exposed_ports(8081)
    container.tmpfs |= {"/tmp": "", "/data": "uid=10001,mode=0700"}
    contained = container.with_kwargs(read_only=True, mem_limit="512m", cap_drop=["ALL"])
    with contained:
        endpoint = f"127.0.0.1:{container.get_exposed_port(8081)}"
        async with Client(endpoint) as client:
            await within(START_S, lambda: client.send("started", b"yet?"))
            yield client
