"""popmq acl export, popmq acl import: all users and policies as a file."""

import json
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.access import access_file
from popmq_cli.access.access_file import AccessFile, WrongFile
from popmq_cli.access.import_plan import ImportStep, kept_secrets, planned
from popmq_cli.access.options import tell_missing
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document, fields, note
from popmq_readings.access_words import entry_text, subject_text

VERBS: Final = {"CreateUser": "Create", "UpdateUser": "Change", "PutAcl": "Set"}
PLAIN_ENDINGS: Final = (".yml", ".yaml")


@click.command(cls=Command)
@client_options
@running
async def export(endpoint: str, as_json: bool) -> None:
    """Print all users and policies as JSON, without secrets.

    The format is that of RocketMQ 5 (UserInfo, AclInfo). `popmq acl import` reads it.
    """
    async with AdminClient(endpoint) as stub:
        users = await stub.ListUsers(admin.ListUsersRequest(), timeout=TIMEOUT_S)
        acls = await stub.ListAcls(admin.ListAclsRequest(), timeout=TIMEOUT_S)
    found = access_file.written(users.users, acls.acls)
    if as_json:
        document(found)
    else:
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))


@click.command("import", cls=Command)
@click.argument("file", type=click.File("rb"))
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@client_options
@running
async def import_file(file: BinaryIO, dry_run: bool, endpoint: str, as_json: bool) -> None:
    """Create the users of FILE and set its policies.

    FILE is JSON as `popmq acl export` prints it, or plain_acl.yml of RocketMQ 4; - is standard
    input. A new user without a password in FILE gets a secret, which is printed once. A user who
    exists keeps the present secret. Entries for resources that FILE does not name stay as they are.
    """
    try:
        found = _read(file)
        async with AdminClient(endpoint) as stub:
            listed = await stub.ListUsers(admin.ListUsersRequest(), timeout=TIMEOUT_S)
            there = {one.username: one for one in listed.users}
            steps = planned(found, there)
            run = ImportRun(dry_run, as_json, steps)
            try:
                await run.go(stub)
            finally:
                run.tell(found, kept_secrets(found, there))
    except WrongFile as wrong:
        raise click.BadParameter(str(wrong), param_hint=_name(file)) from wrong


def _name(file: BinaryIO) -> str:
    """Standard input may have none."""
    return str(getattr(file, "name", "-"))


def _read(file: BinaryIO) -> AccessFile:
    """Raises `WrongFile`."""
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongFile("it is no text in UTF-8") from None
    except OSError as wrong:
        raise WrongFile(f"it cannot be read: {wrong}") from wrong
    if _name(file).lower().endswith(PLAIN_ENDINGS) or not text.lstrip().startswith(("{", "[")):
        from popmq_cli.access import plain_acl  # only these files need the reader of YAML

        return plain_acl.read(text)
    return access_file.read(text)


@dataclass
class ImportRun:
    """What was done is told also if a later step fails: a secret that was made is never lost."""

    dry_run: bool
    as_json: bool
    steps: list[ImportStep]
    done: list[ImportStep] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    missing: set[str] = field(default_factory=set)

    async def go(self, stub: "admin_grpc.AdminAsyncStub") -> None:
        for step in self.steps:
            if not self.dry_run:
                response: Any = await getattr(stub, step.call)(step.request, timeout=TIMEOUT_S)
                self.missing.update(response.missing_brokers)
                if step.call == "CreateUser" and response.secret:
                    self.secrets[step.username] = response.secret
            self.done.append(step)
            if not self.as_json:
                self._show(step)

    def _show(self, step: ImportStep) -> None:
        would = "Would: " if self.dry_run else ""
        secret = self._made_secret(step)
        shown = f"; the secret, not shown again: {secret}" if secret else ""
        click.echo(f"{would}{VERBS[step.call]} {step.what}{shown}")
        if self.dry_run and isinstance(step.request, admin.PutAclRequest):
            for entry in step.request.entries:
                click.echo(f"    {entry_text(entry)}")

    def tell(self, found: AccessFile, kept: list[str]) -> None:
        if self.as_json:
            self._document(found, kept)
            return
        for text in found.not_carried_over:
            note(f"Note: {text}.")
        if kept:
            those = ", ".join(kept)
            note(f"Note: the secret of users who exist is not changed: {those}.")
        left = len(self.steps) - len(self.done)
        if left:
            note(f"{len(self.done)} of {len(self.steps)} changes are made; import again to go on.")
        elif not self.steps:
            click.echo("Nothing to change.")
        tell_missing(sorted(self.missing))

    def _document(self, found: AccessFile, kept: list[str]) -> None:
        document(
            {
                "dryRun": self.dry_run,
                "changes": [self._change(step) for step in self.done],
                "changesLeft": len(self.steps) - len(self.done),
                "secretsKept": kept,
                "notCarriedOver": list(found.not_carried_over),
                "missingBrokers": sorted(self.missing),
            }
        )

    def _change(self, step: ImportStep) -> dict[str, Any]:
        """The secret is one that the server made; the file's own is not told."""
        request = fields(step.request)
        request.pop("secret", None)
        return {
            "call": step.call,
            "subject": subject_text(step.username),
            "request": request,
            "secret": self._made_secret(step),
        }

    def _made_secret(self, step: ImportStep) -> str | None:
        return self.secrets.get(step.username) if step.call == "CreateUser" else None
