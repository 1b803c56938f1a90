"""Without asyncio: for scripts, Flask, Spark.

python examples/scripts.py [ENDPOINT]
"""

import sys

from popmq import Message
from popmq.sync import SyncClient

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"

with SyncClient(ENDPOINT) as client:
    client.admin.ensure_group("adders", start="first")
    client.producer().send_many("numbers", [Message(body=b"%d" % n) for n in range(1, 101)])
    total = seen = 0
    with client.consumer("numbers", "adders", held_max=32) as consumer:
        for message in consumer:
            total += int(message.body)
            consumer.ack(message)
            seen += 1
            if seen == 100:
                break
    print("sum", total)
