"""Tasks with Taskiq: a delay, retries by the server, and a dead letter. Needs popmq[taskiq].

taskiq worker examples.tasks:broker          and elsewhere: await bill.kiq("order-1", 30)
python examples/tasks.py [ENDPOINT]          both in one process
"""

import asyncio
import sys

from taskiq import Context, InMemoryBroker, TaskiqDepends, TaskiqResultTimeoutError
from taskiq.api import run_receiver_task

from popmq import Reject
from popmq.taskiq import ATTEMPT, TaskBroker

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 and ":" in sys.argv[1] else "127.0.0.1:8081"
broker = TaskBroker(ENDPOINT, retry=[0.2]).with_result_backend(
    InMemoryBroker().result_backend  # a service has one in Redis or PostgreSQL
)


@broker.task(retry_on_error=True, max_retries=3)
async def bill(order: str, price: int, context: Context = TaskiqDepends()) -> str:
    if price < 0:
        raise Reject("a price below 0")
    attempt = int(context.message.labels[ATTEMPT])
    if order == "order-2" and attempt == 1:
        raise ConnectionError("the bank does not answer")
    return f"{order} is billed, attempt {attempt}"


async def main() -> None:
    await broker.startup()
    sent = [
        await bill.kiq("order-1", 30),
        await bill.kiq("order-2", 40),
        await bill.kicker().with_labels(delay=0.5).kiq("order-3", 50),
        await bill.kiq("order-4", -1),
    ]
    worker = asyncio.create_task(run_receiver_task(broker))
    for task in sent:
        try:
            result = await task.wait_result(timeout=60)
        except TaskiqResultTimeoutError:
            print("no result in time")
            continue
        print(result.error if result.is_err else result.return_value)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
