"""The pages on moving from elsewhere: PopMQ's programs and commands, as they stand there."""

import asyncio
import json
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harness.page_programs import ENDPOINT, PageProgram, check_what_it_prints, programs_of
from harness.processes import POPMQ, Process, Server, free_port, standalone

from popmq import Client

ROOT = Path(__file__).resolve().parents[2]
FROM_ROCKETMQ = ROOT / "docs/move-from-rocketmq.md"
ARCHIVE = ROOT / "tests/pipelines/rocketmq-store.tar.xz"
"""A directory of a stopped RocketMQ broker; tests/rocketmq_store/fixture.py says what is in it."""


PROGRAMS = [
    program
    for program in programs_of("docs/move-from-celery.md", "docs/move-from-kafka.md")
    if "popmq" in program.text
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    with standalone(tmp_path / "server") as running:
        yield running


@pytest.mark.timeout(200)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_prints_what_the_page_says(
    program: PageProgram, server: Server, tmp_path: Path
) -> None:
    assert program.prints
    assert ENDPOINT in program.text
    check_what_it_prints(program, server, tmp_path)
    if "App(" in program.text:
        listed = server.cli("dlq", "list", "billing")
        assert "a price below 0" in json.dumps(listed)


class Taken(NamedTuple):
    """RocketMQ's directory, and what the page says to do with it."""

    folder: Path
    noted: Path
    commands: list[list[str]]
    outputs: list[str]
    settings: dict[str, str]

    def popmq(self, *words: str) -> list[str]:
        """The page's command that begins so, for this directory."""
        (found,) = (line for line in self.commands if tuple(line[1 : 1 + len(words)]) == words)
        return [POPMQ, *(str(self.folder) if word == "/srv/store" else word for word in found[1:])]


@pytest.fixture
def taken(tmp_path: Path) -> Taken:
    page = FROM_ROCKETMQ.read_text()
    section = page[page.index("## Take over a directory") : page.index("## The switch")]
    lines = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL)).splitlines()
    exported = re.findall(r"(POPMQ_BROKER_[A-Z_]+)=(\S+)", " ".join(lines))
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        archive.extractall(tmp_path / "store")
    (tmp_path / "store/noted").rename(tmp_path / "noted")
    return Taken(
        folder=tmp_path / "store",
        noted=tmp_path / "noted",
        commands=[shlex.split(line) for line in lines if line.startswith("popmq ")],
        outputs=re.findall(r"```text\n(.*?)```", section, re.DOTALL),
        settings=dict(exported),
    )


def _noted(taken: Taken, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (taken.noted / name).read_text().splitlines()]


def test_the_settings_are_those_of_broker_conf(taken: Taken) -> None:
    """The page's table says which is which."""
    page = FROM_ROCKETMQ.read_text()
    conf = dict(re.findall(r"^(\w+) = (\S+)$", page, re.MULTILINE))
    theirs = {
        "NAME": "brokerName",
        "CLUSTER": "brokerClusterName",
        "SEGMENT_BYTES": "mappedFileSizeCommitLog",
        "QUEUE_FILE_BYTES": "mappedFileSizeConsumeQueue",
        "INDEX_SLOTS": "maxHashSlotNum",
        "INDEX_ENTRIES": "maxIndexNum",
    }
    for ours, name in theirs.items():
        assert taken.settings[f"POPMQ_BROKER_{ours}"] == conf[name]
        assert f"`{name}`" in page
    assert taken.settings.keys() == {f"POPMQ_BROKER_{ours}" for ours in theirs}


@pytest.mark.timeout(300)
def test_a_directory_is_taken_over_and_given_back(taken: Taken, tmp_path: Path) -> None:
    checked = subprocess.run(
        taken.popmq("store", "check"), capture_output=True, text=True, check=False
    )
    damage = [line for line in checked.stdout.splitlines() if not line.startswith("note: ")]
    assert len(damage) == 1, checked.stdout  # the line that adds up

    port = free_port()
    command = [*taken.popmq("standalone")[1:], "--port", str(port)]
    process = Process(command, taken.settings, tmp_path / "log", port)
    server = Server(f"127.0.0.1:{port}", "", {"standalone": process})
    process.start()
    try:
        show = [*taken.popmq("topic", "show"), "--endpoint", server.endpoint]
        shown = subprocess.run(show, capture_output=True, text=True, check=True)
        assert shown.stdout == taken.outputs[0]
        (group,) = (line for line in _noted(taken, "taken.jsonl") if line["group"] == "done")
        received = asyncio.run(_all(server.endpoint, group["topic"], "done"))
    finally:
        assert process.stop() == 0
    sent = {
        line["number"] for line in _noted(taken, "sent.jsonl") if line["topic"] == group["topic"]
    }
    assert group["acked"]
    assert received == sent - set(group["acked"])

    back = subprocess.run(
        taken.popmq("store", "handover"), capture_output=True, text=True, check=True
    )
    assert back.stdout == taken.outputs[1]


async def _all(endpoint: str, topic: str, group: str) -> set[int]:
    """Numbers of the messages that the group gets, each acked."""
    found: set[int] = set()
    async with Client(endpoint) as client:
        while messages := await client.receive(topic, group, wait_s=3.0):
            for message in messages:
                found.add(int(message.properties["number"]))
                await message.ack()
    return found
