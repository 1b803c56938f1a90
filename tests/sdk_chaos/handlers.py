"""What the consumers of the campaign run: each message is written down when it is handled."""

import asyncio
import os
import random
import time

from popmq import App, ReceivedMessage
from sdk_chaos.findings import Handled

TOPIC, GROUP = "chaos", "chaos-group"
LEASE_S = "SDK_CHAOS_LEASE_S"
FILE = "SDK_CHAOS_FILE"
CONCURRENCY = 32  # enough for the flow where an answer takes its time
app = App(stop_s=20.0)
out = os.open(os.environ.get(FILE, os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@app.handler(TOPIC, GROUP, concurrency=CONCURRENCY, lease_s=float(os.environ.get(LEASE_S, "30")))
async def handle(message: ReceivedMessage) -> None:
    await asyncio.sleep(random.uniform(0, 0.02))
    handled = Handled(
        number=int(message.body),
        at_s=time.monotonic(),
        attempt=message.delivery_attempt,
        message_id=message.message_id,
        place=f"{message.broker}/{message.queue_id}/{message.queue_offset}",
        consumer=os.getpid(),
    )
    os.write(out, handled.line())
