"""Every command that a page shows works as it is written there, and prints what the page says.

Each page is followed from its top, before servers of its own. A block that cannot be run here is
in NOT_RUN, with the reason.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from harness.page_shell import PROGRAMS, Shell, Terminal, loose_pattern
from integration.page_stages import STAGES, Stage
from tidy.pages import DOCS, ORIGINALS, Block, blocks, name, prose

DOCKER = "needs Docker: make compose follows it"
KUBERNETES = "needs Kubernetes: make helm holds the chart to its schemas"
MINUTES = "takes minutes: make campaigns lists it, and make test-all runs what CI needs"
JAVA = "needs Java: make audit does the same, and so does make pipelines-long"
INDEX = "installs from the package index: test_install.py installs the checkout"

NOT_RUN = [
    ("README.md", "make quickstart", "makes an environment: make first-message follows it"),
    ("CONTRIBUTING.md", "make help", MINUTES),
    ("docs/audit.md", "popmq-pipelines counts", JAVA),
    ("docs/audit.md", "popmq-pipelines export", JAVA),
    ("docs/audit.md", "popmq-pipelines replicas", JAVA),
    ("docs/audit.md", "popmq-pipelines stream", "needs Java: test_stream.py runs it"),
    ("docs/console.md", "pip install", "test_console_commands.py runs it"),
    ("docs/console.md", "popmq console", "test_console_commands.py starts it"),
    ("docs/deploy.md", "docker compose -f deploy/docker-compose.yml up", DOCKER),
    ("docs/deploy.md", "docker compose -f deploy/docker-compose.yml -f deploy/broker-c", DOCKER),
    ("docs/deploy.md", "docker compose -f deploy/docker-compose.yml -f deploy/replicated", DOCKER),
    ("docs/deploy.md", "git pull", DOCKER),
    ("docs/deploy.md", "popmq standalone --cores", "two servers on one port: test_cores.py"),
    ("docs/deploy.md", "popmq broker --shards 4", "they serve for ever: test_workers.py"),
    ("docs/performance/cores.md", "make bench-cores", MINUTES),
    ("docs/performance/curves.md", "make bench-curves", MINUTES),
    ("docs/deploy.md", "python3 -m venv /opt/popmq", "needs root and systemd: tests/unit/deploy"),
    ("docs/export.md", "python -m popmq_pipelines.jobs.decode", JAVA),
    ("docs/formats.md", "make rocketmq-store", MINUTES),
    ("docs/idempotence.md", "make idempotence", MINUTES),
    ("docs/kubernetes.md", "docker build", DOCKER),
    ("docs/kubernetes.md", "helm upgrade --install", KUBERNETES),
    ("docs/kubernetes.md", "kubectl -n queues port-forward", KUBERNETES),
    ("docs/kubernetes.md", "kubectl -n queues create secret", KUBERNETES),
    ("docs/kubernetes.md", "helm upgrade popmq", KUBERNETES),
    ("docs/kubernetes.md", "kubectl -n queues exec", KUBERNETES),
    ("docs/lake.md", "popmq-pipelines lake", "needs an audit: test_lake_page.py runs it"),
    ("docs/move-from-celery.md", "celery -A shop worker", "Celery's: before the move"),
    ("docs/move-from-rocketmq.md", "popmq store check", "test_moving.py runs it"),
    ("docs/move-from-rocketmq.md", "popmq topic show", "test_moving.py runs it"),
    ("docs/move-from-rocketmq.md", "popmq store handover", "test_moving.py runs it"),
    ("docs/observability.md", "pip install", INDEX),
    ("docs/operations.md", "deploy/upgrade", DOCKER),
    ("docs/performance.md", "make bench", MINUTES),
    ("docs/replicas.md", "docker compose -f deploy/docker-compose.yml", DOCKER),
    ("docs/replicas.md", "popmq replica", "needs replicas: test_replicas.py runs these commands"),
    ("docs/replicas.md", "popmq store backup", "test_replicas.py copies a replica that runs"),
    ("docs/security.md", "popmq tls init", "test_secured_cluster.py follows its steps"),
    ("docs/security.md", "popmq limit set", "needs users; test_cli_limits.py sets limits"),
    ("docs/testing-your-app.md", "pip install", INDEX),
    ("docs/tutorial.md", "", "test_tutorial.py follows the page"),
]
"""Page, how the block begins, why it is not run here."""

PROGRAM = re.compile(
    r"(?:popmq|make|docker|git|helm|kubectl|pip|python3?|celery|taskiq|pytest|popmq-pipelines"
    r"|curl|apt-get|systemctl|\S*/popmq|deploy/upgrade) "
)
SHELLS = ("sh", "bash", "console")
PREFIX = re.compile(r"^(?:\$ |sudo |[A-Z_]+=\S* +)*")
ENDLESS = {
    "popmq run": "(?s:.*ready: 1 handler)",
    "popmq top": "(?s:.*GROUP, BY LAG)",
    "taskiq worker": "(?s:.*Listening started)",
    "popmq broker": "(?s:.*broker.started)",
}
"""They run until Ctrl-C; what is seen when they serve."""
STAYS = "popmq broker"
"""For the commands after it."""
HEADS_ALONE = {"docs/operations.md"}
"""Pages that show busy clusters: of an output the columns are compared."""


class Part(NamedTuple):
    """A block of commands, and the output below it, if the page shows one."""

    block: Block
    output: str

    def __str__(self) -> str:
        return str(self.block)


def first_line(block: Block) -> str:
    return block.text.strip().partition("\n")[0]


def is_shell(block: Block) -> bool:
    lines = (PREFIX.sub("", line) + " " for line in block.text.splitlines())
    return block.language in SHELLS or (
        block.language == "" and any(PROGRAM.match(line) for line in lines)
    )


def parts(page: Path) -> Iterator[Part]:
    found = sorted(blocks(page), key=lambda block: block.line)
    lines = prose(page).splitlines()
    for number, block in enumerate(found, 1):
        if is_shell(block):
            yield Part(block, "\n".join(one.text for one in _output(found[number:], block, lines)))


def _output(behind: list[Block], block: Block, lines: list[str]) -> Iterator[Block]:
    """The blocks of text of the same section, with nothing but empty lines between them."""
    for number, one in enumerate(behind):
        before = behind[number - 1] if number else block
        between = lines[before.line + before.text.count("\n") - 1 : one.line - 1]
        is_apart = any(line.startswith("#") if number == 0 else line for line in between)
        if is_apart or one.language not in ("", "text") or is_shell(one):
            return
        yield one


ALL = [part for page in ORIGINALS for part in parts(page)]


def reasons(block: Block) -> list[str]:
    return [
        why
        for page, begins, why in NOT_RUN
        if page == name(block.page) and first_line(block).startswith(begins)
    ]


def commands(block: Block) -> Iterator[str]:
    """Without comments, and without what installs PopMQ, which is here."""
    for line in block.text.replace("\\\n", " ").splitlines():
        command = re.sub(r"(^| +)#.*$", "", line).strip()
        if command and not command.startswith("pip install 'popmq["):
            yield command


class Reader:
    """Follows a page on its stage, in a shell in an empty folder."""

    def __init__(self, folder: Path, stage: Stage) -> None:
        self.stage, self.shell = stage, Shell(folder)
        self.shell.env |= {"POPMQ_ENDPOINT": stage.endpoint, **stage.variables}
        self.shell.env["PATH"] = f"{PROGRAMS}:{self.shell.env['PATH']}"
        self.terminals: list[Terminal] = []
        for file, text in stage.files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text)

    def follow(self, part: Part) -> None:
        printed = ""
        for command in commands(part.block):
            printed += self._do(self._here(command))
        if part.output and name(part.block.page) in HEADS_ALONE:
            assert heads(part.output) <= heads(printed), printed
        elif part.output:
            assert re.fullmatch(loose_pattern(part.output), printed), printed

    def _here(self, command: str) -> str:
        for word, meant in sorted(self.stage.here.items(), reverse=True):
            command = re.sub(rf"(?<!\w){re.escape(word)}(?![\w-])", meant, command)
        return command

    def _do(self, command: str) -> str:
        called = PREFIX.sub("", command) + " "
        kind = next((one for one in ENDLESS if called.startswith(f"{one} ")), "")
        if not kind:
            return self.shell.run(command, typed="y\n")
        output = self.shell.folder / f"output {len(self.terminals)}"
        terminal = Terminal(f"exec env {command}", self.shell, output)
        self.terminals.append(terminal)
        terminal.matches(ENDLESS[kind])
        if kind == STAYS:
            return ""
        assert terminal.interrupt() == 0, output.read_text()
        return output.read_text()

    def leave(self) -> None:
        for terminal in self.terminals:
            terminal.interrupt()


def heads(output: str) -> set[str]:
    """Lines of columns' names, whatever the columns' width."""
    lines = {" ".join(line.split()) for line in output.splitlines()}
    return {line for line in lines if re.fullmatch(r"[A-Z][A-Z/, ]+", line)}


def test_every_block_is_run_or_has_a_reason() -> None:
    neither = [
        str(part)
        for part in ALL
        if len(reasons(part.block)) != 1
        and (reasons(part.block) or name(part.block.page) not in STAGES)
    ]
    assert neither == [], "run it (page_stages.py), or say why not (NOT_RUN), once"
    begins = {(name(part.block.page), first_line(part.block)) for part in ALL}
    gone = [
        row for row in NOT_RUN if not any(p == row[0] and b.startswith(row[1]) for p, b in begins)
    ]
    assert gone == []


@pytest.mark.parametrize(
    ("language", "text", "commands_in_it"),
    [
        ("", "popmq topic list\n", True),
        ("", "POPMQ_PROXY_PORT=1 popmq proxy   # here\n", True),
        ("sh", "anything\n", True),
        ("", "POPMQ_PORT=18081\n", False),
        ("", "! broker broker-b keeps 13 dead letters\n    do  popmq dlq list GROUP\n", False),
        ("text", "popmq topic list\n", False),
    ],
)
def test_what_is_a_block_of_commands(language: str, text: str, commands_in_it: bool) -> None:
    block = Block(DOCS / "README.md", language, text, 1)
    assert is_shell(block) == commands_in_it
    assert reasons(block) == []


def test_an_output_may_differ_in_times_and_numbers_only() -> None:
    shown = loose_pattern(
        "01A2…, topic orders\n\nWHEN    WHAT\n2026-11-21T20:02:11.004Z  offset 17\n"
    )
    printed = "0102FC00, topic orders\n\nWHEN  WHAT\n2027-01-01T00:00:00.000Z  offset 4\n"
    assert re.fullmatch(shown, printed)
    assert not re.fullmatch(shown, printed.replace("orders", "bills"))
    assert not re.fullmatch(shown, printed + "more\n")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", STAGES)
def test_the_commands_of_a_page_work_and_print_what_it_says(page: str, tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "reader").mkdir()
    with STAGES[page](tmp_path / "servers") as stage:
        reader = Reader(tmp_path / "reader", stage)
        try:
            for part in ALL:
                if name(part.block.page) == page and not reasons(part.block):
                    reader.follow(part)
        finally:
            reader.leave()
