"""A worker: one of the processes of a proxy. It serves the clients that the supervisor hands
over."""

import sys

from popmq_common.process.clock import SystemClock
from popmq_common.workers.worker import Clients, Worker, run_worker
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig


async def serve_proxy(config: ProxyConfig, worker: Worker) -> None:
    """Raises what keeps the proxy from starting."""
    async with proxy(config, SystemClock(), arriving=worker.handed.next) as front:
        clients = Clients(front.connection_count, front.move_one)
        await worker.serve(front.inner.metrics.registry, clients)
    await worker.end()


if __name__ == "__main__":
    sys.exit(run_worker(serve_proxy))
