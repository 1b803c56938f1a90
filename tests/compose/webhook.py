"""Somebody who is told of alerts: a receiver of Alertmanager's webhook, on this machine."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Told:
    """What was posted so far, as (alert, firing or resolved)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.alerts: list[tuple[str, str]] = []


@contextmanager
def receiver() -> Iterator[Told]:
    told = Told(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.alerts += [(one["labels"]["alertname"], one["status"]) for one in body["alerts"]]
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *values: object) -> None:
            return

    with ThreadingHTTPServer(("0.0.0.0", 0), Handler) as server:
        told.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield told
        server.shutdown()
        thread.join()
