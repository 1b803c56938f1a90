"""etcd as real processes: Debian's, or the program that the variable ETCD names."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.certificates import Certified
from harness.processes import free_port

START_S = 60.0
STOP_S = 20.0
HEARTBEAT_MS = 50
ELECTION_MS = 250
"""Low ones, by which the shortest lease is a second."""


def etcd_program() -> str:
    found = shutil.which(os.environ.get("ETCD", "etcd"))
    assert found, "no etcd here; install it: apt-get install etcd-server"
    return found


@dataclass
class EtcdMember:
    name: str
    folder: Path
    port: int
    peer_port: int
    tls: tuple[Path, Certified] | None = None
    """Authority and own certificate; then clients must show one, too."""
    options: list[str] = field(default_factory=list)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def client_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}"

    def spawn(self) -> None:
        command = [etcd_program(), "--name", self.name, "--data-dir", str(self.folder / self.name)]
        command += ["--listen-client-urls", self.client_url]
        command += ["--advertise-client-urls", self.client_url]
        command += ["--listen-peer-urls", self.peer_url]
        command += ["--initial-advertise-peer-urls", self.peer_url]
        command += ["--heartbeat-interval", str(HEARTBEAT_MS)]
        command += ["--election-timeout", str(ELECTION_MS)]
        if self.tls:
            authority, own = self.tls
            command += ["--client-cert-auth", "--trusted-ca-file", str(authority)]
            command += ["--cert-file", str(own.certificate), "--key-file", str(own.key)]
        environ = {key: value for key, value in os.environ.items() if not key.startswith("ETCD")}
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                command + self.options, stdout=out, stderr=out, env=environ
            )

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                break
            with suppress(OSError, ValueError):
                if json.loads(self._get("/health"))["health"] == "true":
                    return
            time.sleep(0.02)  # nothing else tells that it has a leader
        raise AssertionError(f"{self.name} did not start:\n{self.log.read_text()[-4_000:]}")

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)

    def ask(self, path: str, what: Mapping[str, object], token: str = "") -> dict[str, object]:
        """A call of its gateway, e.g. /v3/auth/enable, in JSON."""
        headers = {"Authorization": token} if token else {}
        asked = urllib.request.Request(
            self.client_url + path, json.dumps(what).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(asked, timeout=10, context=self._context()) as answer:
            found = json.load(answer)
        assert isinstance(found, dict)
        return found

    def is_leader(self) -> bool:
        status = self.ask("/v3/maintenance/status", {})
        header = status["header"]
        assert isinstance(header, dict)
        return bool(status.get("leader") == header["member_id"])

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(
            self.client_url + path, timeout=2, context=self._context()
        ) as answer:
            found: bytes = answer.read()
            return found

    def _context(self) -> ssl.SSLContext | None:
        if self.tls is None:
            return None
        authority, own = self.tls
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(own.certificate, own.key)
        return context


def enable_users(member: EtcdMember, user: str, password: str, prefix: str) -> None:
    """`root` with the same password, and `user`, who may use what begins with `prefix`."""
    for name in ("root", user):
        member.ask("/v3/auth/user/add", {"name": name, "password": password})
        member.ask("/v3/auth/role/add", {"name": name})
        member.ask("/v3/auth/user/grant", {"user": name, "role": name})
    grant(member, user, prefix)
    member.ask("/v3/auth/enable", {})


def grant(member: EtcdMember, role: str, prefix: str, token: str = "") -> None:
    permission = {
        "permType": "READWRITE",
        "key": _in_base64(prefix),
        "range_end": _in_base64(prefix[:-1] + chr(ord(prefix[-1]) + 1)),
    }
    member.ask("/v3/auth/role/grant", {"name": role, "perm": permission}, token)


def log_in(member: EtcdMember, user: str, password: str) -> str:
    """A token."""
    answer = member.ask("/v3/auth/authenticate", {"name": user, "password": password})
    return str(answer["token"])


def _in_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


@contextmanager
def etcd(
    folder: Path,
    members: int = 1,
    *,
    tls: tuple[Path, Certified] | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[list[EtcdMember]]:
    """Healthy; killed at the end, those that were stopped too."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [
        EtcdMember(f"etcd-{number}", folder, free_port(), free_port(), tls)
        for number in range(members)
    ]
    cluster = ",".join(f"{one.name}={one.peer_url}" for one in made)
    try:
        for one in made:
            one.options = ["--initial-cluster", cluster, *options]
            one.spawn()
        for one in made:
            one.wait_healthy()
        yield made
    finally:
        for one in made:
            one.kill()
