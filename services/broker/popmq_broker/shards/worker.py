"""A worker: the process of one shard, a broker that proxies reach at a port of its own."""

import sys

from popmq_broker import metrics
from popmq_broker.app import server
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_common.workers.worker import Worker, run_worker


async def serve_broker(config: BrokerConfig, worker: Worker) -> None:
    """Raises what keeps the broker from starting."""
    async with server(config, SystemClock()) as serving:
        await worker.serve(metrics.registry(serving.broker, serving.link))
        await worker.end()


if __name__ == "__main__":
    sys.exit(run_worker(serve_broker))
