"""Real PostgreSQL, MariaDB and Redis: Debian's, on a free port in a folder of their own, else in
containers, else a failure that says what to install."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.processes import free_port
from testcontainers.core.container import DockerContainer

INSTALL = "apt-get install postgresql redis-server mariadb-server"
START_S = 90.0
STOP_S = 20.0
DATABASE = "popmq"


class ServerMissing(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"no {name} and no Docker here; install it: {INSTALL}")


def binary(*names: str) -> str | None:
    """Where it is, also where Debian hides it."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), Path("/usr/sbin"), Path("/usr/bin")]
    for name in names:
        found = shutil.which(name)
        if found:
            return found
        for place in sorted(places, reverse=True):
            if (place / name).exists():
                return str(place / name)
    return None


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30)
    return asked.returncode == 0


@contextmanager
def _folder(user: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="popmq-", ignore_cleanup_errors=True) as name:
        if os.getuid() == 0:
            shutil.chown(name, user)
        yield Path(name)


def _run(command: Sequence[str], user: str | None = None) -> None:
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=START_S, cwd="/", user=user
    )
    if done.returncode != 0:
        text = (done.stdout + done.stderr).decode(errors="replace")
        raise AssertionError(f"{' '.join(command)} failed:\n{text}")


def _wait_for(port: int, alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and alive():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connected:
                connected.settimeout(1)
                return
        except OSError:
            time.sleep(0.05)  # nothing else tells that a process listens
    raise AssertionError(f"nothing listens on port {port} after {START_S:g} s")


@contextmanager
def _process(command: Sequence[str], port: int, folder: Path) -> Iterator[None]:
    log = folder / "server.log"
    with open(log, "wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        try:
            _wait_for(port, lambda: running.poll() is None)
        except AssertionError as failed:
            raise AssertionError(f"{command[0]}: {failed}\n{log.read_text()}") from None
        yield
    finally:
        running.terminate()
        running.wait(STOP_S)


@contextmanager
def _container(image: str, port: int, env: dict[str, str], ready: str) -> Iterator[tuple[str, int]]:
    container: Any = DockerContainer(image).with_exposed_ports(port)
    for name, value in env.items():
        container = container.with_env(name, value)
    with container as running:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            code, _ = running.exec(["sh", "-c", ready])
            if code == 0:
                yield running.get_container_host_ip(), int(running.get_exposed_port(port))
                return
            time.sleep(0.2)  # nothing else tells that the server inside is ready
        raise AssertionError(f"{image} was not ready after {START_S:g} s")


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database."""
    initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
    if initdb is None or pg_ctl is None:
        if not docker_answers():
            raise ServerMissing("PostgreSQL")
        env = {"POSTGRES_PASSWORD": "x", "POSTGRES_DB": DATABASE}
        with _container("postgres:17-alpine", 5432, env, "pg_isready -h 127.0.0.1") as (host, at):
            yield f"postgresql+asyncpg://postgres:x@{host}:{at}/{DATABASE}"
        return
    user = "postgres" if os.getuid() == 0 else getpass.getuser()  # it refuses to be root
    other = user if os.getuid() == 0 else None
    with _folder(user) as folder:
        data, port = str(folder / "data"), free_port()
        _run(
            [initdb, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8"], other
        )
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c max_connections=200"
        options += " -c fsync=off -c synchronous_commit=off"
        start = [pg_ctl, "-D", data, "-w", "-l", str(folder / "server.log"), "-o", options, "start"]
        _run(start, other)
        try:
            yield f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres"
        finally:
            _run([pg_ctl, "-D", data, "-m", "immediate", "stop"], other)


@contextmanager
def mariadb() -> Iterator[str]:
    """The URL of an empty database."""
    server, install = binary("mariadbd"), binary("mariadb-install-db")
    client = binary("mariadb")
    if server is None or install is None or client is None:
        if not docker_answers():
            raise ServerMissing("MariaDB")
        env = {"MARIADB_ROOT_PASSWORD": "x", "MARIADB_DATABASE": DATABASE}
        ready = "healthcheck.sh --connect --innodb_initialized"
        with _container("mariadb:11", 3306, env, ready) as (host, at):
            yield f"mysql+aiomysql://root:x@{host}:{at}/{DATABASE}"
        return
    user = getpass.getuser()
    with _folder(user) as folder:
        data, port, door = str(folder / "data"), free_port(), str(folder / "door")
        method = "--auth-root-authentication-method=normal"
        _run([install, "--no-defaults", f"--datadir={data}", f"--user={user}", method])
        command = [server, "--no-defaults", f"--datadir={data}", f"--user={user}"]
        command += [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={door}"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"]
        with _process(command, port, folder):
            _run([client, "--no-defaults", "-u", "root", f"--socket={door}", "-e", _MAKE])
            yield f"mysql+aiomysql://popmq:x@127.0.0.1:{port}/{DATABASE}"


_MAKE = (
    f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4; "
    "CREATE USER popmq@'127.0.0.1' IDENTIFIED BY 'x'; "
    f"GRANT ALL ON {DATABASE}.* TO popmq@'127.0.0.1'"
)


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of an empty Redis."""
    server = binary("redis-server")
    if server is None:
        if not docker_answers():
            raise ServerMissing("Redis")
        with _container("redis:7-alpine", 6379, {}, "redis-cli ping") as (host, at):
            yield f"redis://{host}:{at}/0"
        return
    with _folder(getpass.getuser()) as folder:
        port = free_port()
        command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        with _process([*command, "--dir", str(folder)], port, folder):
            yield f"redis://127.0.0.1:{port}/0"
