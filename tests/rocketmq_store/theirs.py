"""Apache RocketMQ's nameserver, broker and proxy as processes, and its own clients (java/)."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketmq_store.sizes import (
    BROKER,
    CLUSTER,
    INDEX_ENTRIES,
    INDEX_SLOTS,
    QUEUE_FILE_BYTES,
    SEGMENT_BYTES,
)

from popmq_broker.core.groups import offsets
from popmq_broker.core.timers import timer_levels

HERE: Final = Path(__file__).parent
LIB: Final = HERE.parents[1] / "bench" / "anchor" / "lib"
START_S: Final = 300.0
PROXY_TRIES: Final = 10
STOP_S: Final = 180.0
COMMAND_S: Final = 1_800.0
FLUSH_S: Final = 60.0
Line = dict[str, Any]
Key = tuple[str, str, bool]
"""Topic, key, whether the key is a message's id."""
Position = tuple[str, str, int]
"""Group, topic, queue."""

_OPENS: Final = [
    f"--add-{kind}=java.base/{package}=ALL-UNNAMED"
    for kind, package in (
        ("opens", "java.nio"),
        ("opens", "sun.nio.ch"),
        ("opens", "java.lang"),
        ("exports", "jdk.internal.ref"),
        ("exports", "sun.nio.ch"),
    )
]
_COMPLAINT: Final = re.compile(r" (ERROR|WARN) ")
_EXPECTED: Final = re.compile(
    r"found a illegal magic code 0x0$"  # where the log ends, of its own files too
    r"|maxPhyOffsetOfConsumeQueue\((\d+)\) >= processOffset\(\1\)"  # nothing to truncate
    r"|AllocateMappedFileService - create mappedFile spent time"
    r"|cost (time\(ms\)=)?\d+"  # a busy machine
    r"|Offset not matched. Request offset: (\d+), firstOffset: \d+, lastOffset: \3"  # file is full
    r"|Over index file capacity: |Index file \[.*\] is full, trying to create another"  # a rollover
    r"|Load default HA Service|by shutdown\.?$|slow|The commitlog files are deleted"  # a new store
)
_CONFIG: Final = re.compile(r"(load|decode|parse|json).*(fail|exception|error)", re.IGNORECASE)


class Missing(Exception):
    """A prerequisite is not there; the text tells the command that brings it."""


def check_prerequisites() -> None:
    """Raises `Missing`."""
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is missing: apt-get install openjdk-17-jdk-headless")
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'version "(\d+)', done.stderr)
    if found is None or int(found[1]) < 17:
        raise Missing("java is older than 17: apt-get install openjdk-17-jdk-headless")
    if not any(LIB.glob("rocketmq-broker-*.jar")):
        raise Missing(f"no jars of RocketMQ in {LIB}: make bench/anchor/lib (needs Maven)")


def compile_judge(folder: Path) -> Path:
    """The classes of java/, in `folder`."""
    folder.mkdir(parents=True)
    sources = [str(path) for path in sorted((HERE / "java").glob("*.java"))]
    subprocess.run(["javac", "-d", str(folder), "-cp", f"{LIB}/*", *sources], check=True)
    return folder


def free_port_block(count: int) -> int:
    """The first of `count` ports in a row; RocketMQ takes those beside its own, too."""
    while True:
        base = random.randrange(20_000, 32_000)
        probes = []
        try:
            for port in range(base, base + count):
                probe = socket.socket()
                probes.append(probe)
                probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()


@dataclass
class RocketMQ:
    """One broker over `store`, with its nameserver and, if asked for, its gRPC proxy."""

    home: Path
    store: Path
    classes: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    with_proxy: bool = False
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        base = free_port_block(8)
        self._name_port, self._broker_port, self._proxy_port = base, base + 4, base + 7
        self.endpoint = f"127.0.0.1:{self._proxy_port}"

    def start(self) -> None:
        conf = self.home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        for name in ("namesrv", "broker", "proxy", "tools"):
            (jar,) = LIB.glob(f"rocketmq-{name}-[0-9]*.jar")
            zipfile.ZipFile(jar).extract(f"rmq.{name}.logback.xml", conf)
        (conf / "namesrv.conf").write_text(f"listenPort={self._name_port}\n")
        (conf / "broker.conf").write_text(
            "".join(f"{name}={value}\n" for name, value in self._broker_settings().items())
        )
        self._launch("namesrv", "128m", "namesrv.NamesrvStartup", "-c", conf / "namesrv.conf")
        self._wait("namesrv", self._name_port)
        self._launch("broker", "2g", "broker.BrokerStartup", "-c", conf / "broker.conf")
        self._wait("broker", self._broker_port)
        if self.with_proxy:
            self._start_proxy(conf / "rmq-proxy.json")

    def _broker_settings(self) -> dict[str, str]:
        return {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self._broker_port),
            "haListenPort": str(self._broker_port + 1),
            "namesrvAddr": f"127.0.0.1:{self._name_port}",
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
            "mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES),
            "maxIndexNum": str(INDEX_ENTRIES),
            "maxHashSlotNum": str(INDEX_SLOTS),
            "fileReservedTime": "720",
            "diskMaxUsedSpaceRatio": "95",
            "osPageCacheBusyTimeOutMills": "20000",
            "waitTimeMillsInSendQueue": "20000",
            "waitTimeMillsInPullQueue": "20000",
            "aclEnable": "false",
            **self.settings,
        }

    def _start_proxy(self, path: Path) -> None:
        settings = {
            "rocketMQClusterName": CLUSTER,
            "namesrvAddr": f"127.0.0.1:{self._name_port}",
            "proxyMode": "CLUSTER",
            "grpcServerPort": self._proxy_port,
            "remotingListenPort": self._proxy_port - 1,
        }
        path.write_text(json.dumps(settings))
        for left in reversed(range(PROXY_TRIES)):  # it ends when the broker is slow to register
            self._launch("proxy", "1g", "proxy.ProxyStartup", "-pc", path, "-pm", "cluster")
            try:
                return self._wait("proxy", self._proxy_port)
            except AssertionError:
                if not left:
                    raise

    def _launch(self, name: str, heap: str, main: str, *arguments: object) -> None:
        command = ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", *_OPENS, f"-Duser.home={self.home}"]
        command += [f"-Drmq.logback.configurationFile={self.home}/conf/rmq.{name}.logback.xml"]
        command += ["-cp", f"{self.home}/conf:{LIB}/*", f"org.apache.rocketmq.{main}"]
        environ = {**os.environ, "ROCKETMQ_HOME": str(self.home)}
        with open(self.home / f"{name}.out", "ab") as out:
            self._running[name] = subprocess.Popen(
                [*command, *map(str, arguments)],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def _wait(self, name: str, port: int) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._running[name].poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)  # nothing else tells that it listens
        text = (self.home / f"{name}.out").read_text()
        raise AssertionError(f"RocketMQ's {name} did not start:\n{text}")

    def stop(self) -> None:
        """As an operator would, by SIGTERM; the proxy first."""
        for name in ("proxy", "broker", "namesrv"):
            process = self._running.pop(name, None)
            if process is not None:
                process.terminate()
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    raise

    def wait_flushed(self, positions: Mapping[Position, int]) -> None:
        """Return when `config/consumerOffset.json` has at least these positions.

        RocketMQ answers with the positions in its memory and writes them every 5 s
        (`flushConsumerOffsetInterval`). kill -9 takes it back to what the file has, so a reader of
        its files can only be held to that. Raises `AssertionError`.
        """
        path = self.store / "config" / "consumerOffset.json"
        deadline = time.monotonic() + FLUSH_S
        while time.monotonic() < deadline:
            with suppress(FileNotFoundError):  # between its old file and the new one
                found = offsets.decode(path.read_text(), where=str(path)).offsets
                flushed = {(key.group, key.topic, key.queue_id): at for key, at in found.items()}
                if all(flushed.get(key, 0) >= at for key, at in positions.items()):
                    return
            time.sleep(0.1)  # nothing else tells that it wrote
        raise AssertionError(f"after {FLUSH_S} s {path} is behind what RocketMQ has answered")

    def level_offsets(self) -> Mapping[int, int]:
        """By delay level the next offset to deliver, as `config/delayOffset.json` has it. RocketMQ
        writes it every 10 s and when it stops."""
        path = self.store / "config" / "delayOffset.json"
        return timer_levels.decode_offsets(path.read_text(), where=str(path))

    def kill(self) -> None:
        """kill -9 of the broker; the others end in peace."""
        broker = self._running.pop("broker")
        broker.send_signal(signal.SIGKILL)
        broker.wait()
        self.stop()

    def complaints(self) -> list[str]:
        """What its logs say against the files: all of the store's, and tables that did not load."""
        found = []
        for path in sorted(self.home.glob("logs/**/*.log")):
            for line in path.read_text(errors="replace").splitlines():
                of_store = path.name in ("store.log", "storeerror.log")
                wrong = _COMPLAINT.search(line) and not _EXPECTED.search(line)
                if wrong and (of_store or (path.name == "broker.log" and _CONFIG.search(line))):
                    found.append(f"{path.name}: {line}")
        return found

    def judge(self, command: str, *arguments: object) -> None:
        """Run one command of java/Judge.java. Raises `AssertionError` with its errors."""
        call = ["java", "-Xmx2g", "-Dcom.rocketmq.decompress.body=false"]
        call += [f"-Duser.home={self.home}", f"-Drocketmq.client.logRoot={self.home}/logs"]
        call += ["-cp", f"{self.classes}:{LIB}/*", "Judge"]
        call += [f"127.0.0.1:{self._name_port}", f"127.0.0.1:{self._broker_port}"]
        done = subprocess.run(
            [*call, command, *map(str, arguments)],
            stderr=subprocess.PIPE,  # its progress is to be seen at once
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"judge {command}:\n{done.stderr}"

    def rows(self) -> list[Line]:
        """Every message of every queue, as RocketMQ's clients read it."""
        self.judge("read", self.home / "rows.jsonl")
        return list(lines_of(self.home / "rows.jsonl"))

    def state(self) -> list[Line]:
        self.judge("state", self.home / "state.jsonl")
        return list(lines_of(self.home / "state.jsonl"))

    def set_up(self, wanted: Sequence[Line]) -> None:
        self.judge("setup", write_lines(self.home / "setup.jsonl", wanted))

    def write(self, plan: Sequence[Line], pool: Path) -> list[Line]:
        """Send what `plan` says; what was answered."""
        out = self.home / "written.jsonl"
        self.judge("write", write_lines(self.home / "plan.jsonl", plan), pool, out)
        return list(lines_of(out))

    def view(self, wanted: Sequence[Line]) -> list[Line]:
        """Single messages by their places in the log: {topic, log}."""
        return self._asked("view", wanted)

    def find(self, wanted: Iterable[Key]) -> dict[Key, set[int]]:
        """Where in the log messages lie that have a key or an id."""
        lines = [{"topic": topic, "key": key, "id": is_id} for topic, key, is_id in wanted]
        return {
            (line["topic"], line["key"], line["id"]): set(line["found"])
            for line in self._asked("keys", lines)
        }

    def end(self, halves: Sequence[Line]) -> None:
        """Commit or roll back half messages: {topic, group, id, log, offset, commit}."""
        self.judge("end", write_lines(self.home / "halves.jsonl", halves))

    def recall(self, wanted: Sequence[Line]) -> None:
        """Delayed messages shall not come: {topic, handle}."""
        self.judge("recall", write_lines(self.home / "recalls.jsonl", wanted))

    def answer(self, group: str, topic: str, turn: int, seconds: float) -> list[Line]:
        """Be a producer that is asked about transactions for so long; what it was asked."""
        out = self.home / "asked.jsonl"
        self.judge("answer", group, topic, turn, round(seconds), out)
        return list(lines_of(out))

    def _asked(self, command: str, wanted: Sequence[Line]) -> list[Line]:
        out = self.home / f"{command}-out.jsonl"
        self.judge(command, write_lines(self.home / f"{command}.jsonl", wanted), out)
        return list(lines_of(out))


@contextmanager
def rocketmq(
    home: Path,
    store: Path,
    classes: Path,
    *,
    with_proxy: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[RocketMQ]:
    """Running over `store`; stopped at the end unless that was done."""
    server = RocketMQ(home, store, classes, settings or {}, with_proxy)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def write_lines(path: Path, lines: Iterable[Line]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def lines_of(path: Path) -> Iterator[Line]:
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
