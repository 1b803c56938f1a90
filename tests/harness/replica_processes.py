"""A broker with replicas as real processes: a nameserver, the replicas, a proxy."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.processes import Process, Server, cluster, free_port

LEASE_MS = LAG_MS = 1000


def replica_process(
    folder: Path, name: str, nameserver: str, min_in_sync: int = 2, lag_ms: int = LAG_MS
) -> Process:
    """`name`: a1 is replica a1 of broker-a. Not started."""
    port = free_port()
    env = {
        "NAME": f"broker-{name[0]}",
        "REPLICA": name,
        "REGISTER": f"file://{folder / 'register'}",
        "PORT": str(port),
        "DATA_DIR": str(folder / name),
        "NAMESERVERS": nameserver,
        "MIN_IN_SYNC": str(min_in_sync),
        "REPLICA_LAG_MS": str(lag_ms),
        "PRIMARY_LEASE_MS": str(LEASE_MS),
    }
    environ = {f"POPMQ_BROKER_{key}": text for key, text in env.items()}
    return Process(["broker"], environ, folder / f"{name}.log", port)


@contextmanager
def replicated(
    folder: Path,
    *names: str,
    min_in_sync: int = 2,
    lag_ms: int = LAG_MS,
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """With replicas of these names. `env`: of nameserver and proxy."""
    with cluster(folder, env, brokers=0, proxies=1) as server:
        nameserver = f"127.0.0.1:{server.processes['nameserver'].port}"
        try:
            for name in names:
                made = replica_process(folder, name, nameserver, min_in_sync, lag_ms)
                server.processes[name] = made
                made.start()
            yield server
        finally:
            for name in names:
                process = server.processes.pop(name, None)
                if process is not None and process.running is not None:
                    process.stop()
