"""What the consumers of the campaign run: each message is written down when it is handled."""

import asyncio
import os
import random

from popmq import App, ReceivedMessage

TOPIC, GROUP = "chaos", "chaos-group"
LEASE_S = "SDK_CHAOS_LEASE_S"
FILE = "SDK_CHAOS_FILE"
app = App(stop_s=20.0)
out = os.open(os.environ.get(FILE, os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@app.handler(TOPIC, GROUP, concurrency=8, lease_s=float(os.environ.get(LEASE_S, "30")))
async def handle(message: ReceivedMessage) -> None:
    await asyncio.sleep(random.uniform(0, 0.02))
    os.write(out, message.body + b"\n")
