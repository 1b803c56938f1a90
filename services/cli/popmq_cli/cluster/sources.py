"""What Prometheus cannot find out about a cluster in containers by itself, over HTTP.

    python -m popmq_cli.cluster.sources --port 5557 --figures /audit

    GET /targets?name=proxy&port=5557   the containers of a service, for `http_sd_configs`
    GET /metrics                        a directory's files *.prom as one page: audits' figures

Docker's DNS has an address for each container of a service, and for each address the container's
name: popmq-proxy-2.popmq_back. The target's instance is `proxy-2:5557`, as operators call it.

Few may ask at a time, each within a time: the bounds are those of /metrics of the services.
"""

import argparse
import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from popmq_common.metrics.metrics_http import Pages

PAGE_BYTES_MAX: Final = 8 << 20
"""Of a file of figures; a larger one was not written by an audit."""
REQUEST_S_MAX: Final = 5.0
"""To ask, and then to read what comes."""
OK: Final = "200 OK"


def container(address: str, service: str, host: str) -> str:
    """SERVICE-NUMBER; the address itself, when Compose did not make the container. `host`: what DNS
    calls the address."""
    first = host.partition(".")[0]
    found = re.search(rf"(?:^|[-_])({re.escape(service)}[-_]\d+)$", first)
    return found[1].replace("_", "-") if found else address


def targets(
    service: str, port: int, addresses: Iterable[str], host_of: Callable[[str], str]
) -> list[dict[str, Any]]:
    """As Prometheus reads them from `http_sd_configs`."""
    return [
        {
            "targets": [f"{address}:{port}"],
            "labels": {
                "service": service,
                "instance": f"{container(address, service, host_of(address))}:{port}",
            },
        }
        for address in sorted(addresses)
    ]


def together(pages: Sequence[str]) -> str:
    """One page of several: what is said of a figure stands before all its values."""
    about: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    for line in (line for page in pages for line in page.splitlines() if line.strip()):
        words = line.split(maxsplit=3)
        if line.startswith("#"):
            lines = about.setdefault(words[2], []) if len(words) > 2 else []
            lines += [line] if line not in lines else []
        else:
            values.setdefault(re.split(r"[{ ]", line, maxsplit=1)[0], []).append(line)
    found = [line for name, lines in values.items() for line in [*about.get(name, []), *lines]]
    return "".join(f"{line}\n" for line in found)


def figures(folder: Path) -> str:
    """Of what was written there; what goes meanwhile is left out."""
    pages = []
    for path in sorted(folder.glob("*.prom")):
        try:
            with open(path) as file:
                pages.append(file.read(PAGE_BYTES_MAX))
        except FileNotFoundError:
            continue
    return together(pages)


def addresses_of(name: str) -> set[str]:
    """Empty when no container has the name: all are stopped."""
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror:
        return set()
    return {str(address[0]) for *_, address in found}


def host_of(address: str) -> str:
    try:
        return socket.gethostbyaddr(address)[0]
    except OSError:
        return ""


Started = Callable[[str, list[tuple[str, str]]], object]


def application(folder: Path) -> Callable[[dict[str, str], Started], list[bytes]]:
    """WSGI."""

    def answered(environ: dict[str, str], start: Started) -> list[bytes]:
        status, kind, text = _answer(folder, environ["PATH_INFO"], environ["QUERY_STRING"])
        start(status, [("Content-Type", kind)])
        return [text.encode()]

    return answered


def _answer(folder: Path, path: str, query: str) -> tuple[str, str, str]:
    """(status, content type, text)."""
    if path == "/metrics":
        return OK, "text/plain; version=0.0.4", figures(folder)
    if path != "/targets":
        return "404 Not Found", "text/plain", "/targets?name=SERVICE&port=PORT, or /metrics\n"
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    name, port = asked.get("name", ""), asked.get("port", "")
    if not name or not port.isdecimal():
        return "400 Bad Request", "text/plain", "give name and port\n"
    return OK, "application/json", json.dumps(targets(name, int(port), addresses_of(name), host_of))


async def serve(folder: Path, host: str, port: int) -> None:
    """Until SIGTERM. Raises `OSError` when the port is taken."""
    pages = Pages(application(folder), REQUEST_S_MAX, may_wait=True)  # DNS may be slow
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, pages.stop)
    listening: Future[None] = Future()
    await pages.run(host, port, listening)
    listening.result()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="popmq_cli.cluster.sources", description=__doc__)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--figures", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(words)
    try:
        asyncio.run(serve(options.figures, options.host, options.port))
    except OSError as wrong:
        print(
            f"popmq_cli.cluster.sources: cannot listen on {options.host}: {wrong}", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
