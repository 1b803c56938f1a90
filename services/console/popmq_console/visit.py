"""One request of one visitor: who it is, what that user may do, what a page asks and answers."""

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from popmq import Client, Credentials
from popmq._core.signature import Headers
from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.config import ConsoleConfig
from popmq_console.guard.attempts import LoginAttempts
from popmq_console.guard.sessions import SessionTable, VisitorSession
from popmq_console.guard.tokens import form_token, is_form_token
from popmq_console.live.live_pages import LivePages
from popmq_console.reading.calls import (
    TIMEOUT_S,
    CallFailed,
    ClusterCalls,
    Failure,
    KeptAnswers,
    answer_or_none,
)
from popmq_console.reading.changes import Changes, ConsoleChange
from popmq_console.reading.history import History

RIGHTS_KEPT_MS: Final = 3_000
FIGURES_KEPT_MS: Final = 1_000
RIGHTS: Final = ("TestAccess",)
"""Calls that bring no figures, so the age of their answers is not shown."""
FIELDS_MAX: Final = 1_100
"""Of a form: a thousand messages can be chosen at once."""
FIELD_BYTES_MAX: Final = 5 << 20
TOLD_MAX: Final = 1_000
CLUSTER: Final = "Cluster:DefaultCluster"


class MustLogIn(Exception):
    """The server wants to know who asks."""


class FormRefused(Exception):
    """It was not made by a page of this console, or nothing may be changed here."""


@dataclass(slots=True)
class Console:
    """What all visits share."""

    config: ConsoleConfig
    calls: ClusterCalls
    templates: Environment
    key: bytes = field(repr=False)
    sessions: SessionTable
    started_ms: int
    answers: KeptAnswers = field(default_factory=KeptAnswers)
    attempts: LoginAttempts = field(default_factory=LoginAttempts)
    history: History = field(default_factory=History)
    changes: Changes = field(default_factory=Changes)
    live: LivePages = field(default_factory=LivePages)
    """Pages that somebody looks at."""
    told: dict[str, str] = field(default_factory=dict)
    """By visitor: what was done, for the next page; bounded."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the server says of who asks."""

    authentication: bool
    authorization: bool
    why_read_only: str = ""
    """Empty: changes are possible."""


class Visit:
    def __init__(self, console: Console, request: Request, visitor_id: str, now_ms: int) -> None:
        self.console, self.request = console, request
        self.visitor_id, self.now_ms = visitor_id, now_ms
        self.session: VisitorSession | None = console.sessions.find(visitor_id, now_ms)
        self.asked_ms = now_ms
        """When the oldest figure of the page was told."""
        self._standing = Standing(False, False)

    @property
    def user(self) -> str:
        """Empty: nobody."""
        return self.session.user if self.session is not None else ""

    @property
    def address(self) -> str:
        """Where the request comes from."""
        return self.request.client.host if self.request.client is not None else ""

    @property
    def parameters(self) -> dict[str, str]:
        return dict(self.request.query_params)

    # --- asking ---

    async def ask(
        self, rpc: str, request: Any, *, kept_ms: int = 0, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """As this visitor. `kept_ms`: an answer of that age serves. Raises `CallFailed`."""

        async def asking() -> Any:
            answer = await self.console.calls.ask(rpc, request, self._headers(), timeout_s)
            self.console.config.masks.apply(answer)
            return answer

        if not kept_ms:
            return await asking()
        at_ms, answer = await self.console.answers.ask(
            self.who, rpc, request, self.now_ms, kept_ms, asking
        )
        if rpc not in RIGHTS:
            self.asked_ms = min(self.asked_ms, at_ms)
        return answer

    async def ask_or_none(self, rpc: str, request: Any, *, kept_ms: int = 0) -> Any:
        """None: it is not there, or this visitor may not know; pages say `not known`. Raises
        `CallFailed` for the rest."""
        asking = self.ask(rpc, request, kept_ms=kept_ms)
        return await answer_or_none(asking, Failure.DENIED, Failure.NOT_THERE, Failure.OLDER)

    @property
    def who(self) -> str:
        """Of a session: a user who logs in anew does not see what another session kept."""
        return self.visitor_id if self.session is not None else ""

    def _headers(self) -> Headers:
        return () if self.session is None else self.session.signed.at(self.now_ms // 1000)

    def client(self) -> Client:
        """For messages, as this visitor."""
        config, session = self.console.config, self.session
        credentials: Any = False if session is None else Credentials(session.user, session.secret)
        return Client(config.endpoint, tls=config.tls, credentials=credentials)

    # --- rights ---

    async def stand(self) -> None:
        """Raises `MustLogIn`, `CallFailed`."""
        request = admin.TestAccessRequest(resource=CLUSTER, actions=["Get"])
        try:
            found = await self.ask("TestAccess", request, kept_ms=RIGHTS_KEPT_MS)
        except CallFailed as failed:
            if failed.failure is Failure.NOT_KNOWN:
                self.console.sessions.end(self.visitor_id)
                raise MustLogIn from failed
            if failed.failure not in (Failure.DENIED, Failure.OLDER):
                raise
            self._standing = Standing(False, False, failed.text)
        else:
            if found.authentication and self.session is None:
                raise MustLogIn  # the console's own certificate is nobody's log-in
            self._standing = Standing(found.authentication, found.authorization)

    @property
    def standing(self) -> Standing:
        return self._standing

    @property
    def why_read_only(self) -> str:
        """Empty: this console may change things."""
        if self.console.config.read_only:
            return "the console was started with --read-only"
        return self._standing.why_read_only

    async def may(self, resource: str, *actions: str) -> bool:
        """`resource`: Topic:orders, Group:billing, Cluster:…; one of the actions suffices."""
        if not self._standing.authorization:
            return True
        request = admin.TestAccessRequest(resource=resource, actions=actions)
        try:
            found = await self.ask("TestAccess", request, kept_ms=RIGHTS_KEPT_MS)
        except CallFailed as failed:
            if failed.failure is Failure.REFUSED:  # a name that no resource has
                return False
            raise
        return bool(found.allowed)

    async def may_change(self, resource: str, *actions: str) -> bool:
        return not self.why_read_only and await self.may(resource, *actions)

    # --- forms ---

    async def form(self) -> FormData:
        """Of a page of this console. Raises `FormRefused`."""
        form = await self.request.form(
            max_files=0, max_fields=FIELDS_MAX, max_part_size=FIELD_BYTES_MAX
        )
        shown = str(form.get("token", ""))
        if not is_form_token(self.console.key, self.visitor_id, shown):
            raise FormRefused("The form is too old, or of another site. Load the page again.")
        return form

    async def change_form(self) -> FormData:
        """Of a form that changes something. Raises `FormRefused`."""
        if self.why_read_only:
            raise FormRefused(f"Nothing can be changed here: {self.why_read_only}.")
        return await self.form()

    async def change(
        self, rpc: str, request: Any, command: str, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """`command`: what does the same; kept with the outcome. Raises `CallFailed`."""
        try:
            answer = await self.ask(rpc, request, timeout_s=timeout_s)
        except CallFailed as failed:
            self.note(command, f"refused: {failed.text}")
            raise
        self.note(command, "done")
        return answer

    def note(self, command: str, outcome: str) -> None:
        """Of a change that was made, or refused."""
        self.console.answers.forget(self.who)
        self.console.changes.add(ConsoleChange(self.now_ms, self.user, command, outcome))

    # --- answering ---

    def url(self, path: str, **parameters: object) -> str:
        """`path`: below the console's prefix, with names already quoted."""
        given = {name: str(value) for name, value in parameters.items() if value not in ("", None)}
        query = f"?{urlencode(given)}" if given else ""
        return f"{self.console.config.path_prefix}{path}{query}"

    def live(self) -> str:
        """Where the live part of this page is sent as it changes."""
        path = self.request.url.path.removeprefix(self.console.config.path_prefix)
        return self.url(f"/live{quote(path)}", **self.parameters)

    def here(self, **changed: object) -> str:
        """This address, with other parameters."""
        path = self.request.url.path.removeprefix(self.console.config.path_prefix)
        return self.url(quote(path), **{**self.parameters, **changed})

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        values = {
            "visit": self,
            "config": self.console.config,
            "token": form_token(self.console.key, self.visitor_id),
            "url": self.url,
            "here": self.here,
            "read_only": self.why_read_only,
            "notice": self._notice(),
            **values,
        }
        return HTMLResponse(self.console.templates.get_template(template).render(values), status)

    def tell(self, text: str) -> None:
        """On the next page that this visitor loads."""
        told = self.console.told
        while len(told) >= TOLD_MAX:
            del told[next(iter(told))]
        told[self.visitor_id] = text

    def _notice(self) -> str:
        if self.request.headers.get("hx-request"):
            return ""  # a live part, without the place where it is shown
        return self.console.told.pop(self.visitor_id, "")

    def go(self, path: str, **parameters: object) -> Response:
        return self.go_to(self.url(path, **parameters))

    def go_to(self, address: str) -> Response:
        """`address`: with the console's prefix."""
        return RedirectResponse(address, 303)


def named(kind: str, name: str, *more: str) -> str:
    """/topics/orders: a path below the prefix with a name of anybody's in it."""
    return "/".join(["", kind, quote(name, safe=""), *more])
