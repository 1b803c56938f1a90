"""A client that behaves: one send after the other, and what each waited for.

Other processes want the machine's cores too, so a clock on the wall tells little. What a send is
charged with is the CPU time that the server's event loop, its first thread, spent between its
request and its answer: for others, if it is much. While this process itself waited for a core the
answer may have been there already; that time is taken off. The kernel counts both (schedstat).

    python -m front.hostile.neighbour ENDPOINT SERVER_PID [tls]    until its standard input ends
"""

import json
import select
import socket
import sys
import time
from pathlib import Path

from front.hostile import frames as f
from front.hostile.crowd import unverified
from front.payloads import send
from front.wire import frame as message

EVERY_S = 0.01
PAUSE_S = 0.001
"""Between the head and the body of every second request, which has to be kept until it is whole."""
OWN = Path("/proc/self/schedstat")
USED, WAITED = 0, 1
ANSWER_S = 20.0


class Neighbour:
    def __init__(self, endpoint: str, server_pid: int, *, tls: bool) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self._socket = unverified().wrap_socket(self._socket)
        windows = f.window_update(0, 1 << 30)
        self._socket.sendall(f.PREFACE + f.settings([]) + windows)
        self._data = b""
        self._stream_id = -1
        self._body = message(send("neighbour", b"a message of the neighbour"))
        self._server = Path(f"/proc/{server_pid}/schedstat")

    def send(self) -> float:
        """Milliseconds of the server's CPU time until it was answered."""
        self._stream_id += 2
        data = f.request_head(self._stream_id, "SendMessage")
        body = f.frame(f.DATA, f.END_STREAM, self._stream_id, self._body)
        if self._stream_id & 2:
            data += body
        else:
            self._socket.sendall(data)
            time.sleep(PAUSE_S)
            data = body
        waited_ns, used_ns = _figure(OWN, WAITED), _figure(self._server, USED)
        self._socket.sendall(data)
        self._read_answer()
        used_ns = _figure(self._server, USED) - used_ns
        waited_ns = _figure(OWN, WAITED) - waited_ns
        return max(0, used_ns - waited_ns) / 1e6

    def _read_answer(self) -> None:
        answer = b""
        while True:
            data = self._socket.recv(1 << 16)
            assert data, "the server closed the neighbour's connection"
            found, read = f.whole_frames(self._data + data)
            self._data = (self._data + data)[read:]
            for kind, flags, stream_id, payload in found:
                if kind == f.SETTINGS and not flags & f.ACK:
                    self._socket.sendall(f.frame(f.SETTINGS, f.ACK, 0))
                elif kind == f.PING and not flags & f.ACK:
                    self._socket.sendall(f.frame(f.PING, f.ACK, 0, payload))
                elif kind == f.GOAWAY:
                    raise AssertionError(f"GOAWAY {payload!r} for the neighbour")
                elif stream_id == self._stream_id:
                    answer += payload if kind == f.DATA else b""
                    if flags & f.END_STREAM and kind in (f.HEADERS, f.DATA):
                        assert b"\x08\xa0\x9c\x01" in answer, (kind, payload, answer)  # 20000: OK
                        return
                    assert kind != f.RST_STREAM, payload


def _figure(schedstat: Path, number: int) -> int:
    """Of a thread since it began, in ns."""
    return int(schedstat.read_text().split()[number])


def main() -> None:
    endpoint, pid, *tls = sys.argv[1:]
    neighbour = Neighbour(endpoint, int(pid), tls=bool(tls))
    for _ in range(20):
        neighbour.send()
    print("ready", flush=True)
    charged_ms: list[float] = []
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        charged_ms.append(neighbour.send())
    print(json.dumps(charged_ms), flush=True)


if __name__ == "__main__":
    main()
