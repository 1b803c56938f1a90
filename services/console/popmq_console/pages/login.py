"""/login, /logout: who visits. The server decides whether a user's secret is right."""

import secrets
from urllib.parse import urlsplit

from starlette.responses import Response

from popmq import Credentials, UnusableSettings
from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.guard.sessions import VisitorSession
from popmq_console.reading.calls import SECRET_WORDS, CallFailed, Failure
from popmq_console.visit import CLUSTER, Visit

VISITOR_BYTES = 24


def new_visitor_id() -> str:
    return secrets.token_urlsafe(VISITOR_BYTES)


async def login_page(visit: Visit) -> Response:
    return _page(visit, then=visit.parameters.get("then", ""))


async def login(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed` when no server answers."""
    form = await visit.form()
    user, secret = str(form.get("user", "")).strip(), str(form.get("secret", ""))
    then, attempts = str(form.get("then", "")), visit.console.attempts
    wait_ms = attempts.wait_ms(user, visit.address, visit.now_ms)
    if wait_ms:
        wait_s = -(-wait_ms // 1000)
        wrong = f"Too many tries. Wait {wait_s} s."
        return _page(visit, status=429, then=then, tried=user, wrong=wrong)
    try:
        Credentials(user, secret)
    except UnusableSettings:
        is_user = False
    else:
        is_user = await _is_user(visit, user, secret)
    if not is_user:
        attempts.failed(user, visit.address, visit.now_ms)
        wrong = "This user and secret are not known to the cluster, or the user is disabled."
        return _page(visit, status=403, then=then, tried=user, wrong=wrong)
    attempts.succeeded(user, visit.address)
    visit.console.sessions.end(visit.visitor_id)
    visit.visitor_id = new_visitor_id()  # what was known before the log-in is of no use after it
    session = VisitorSession(user, secret, visit.now_ms, visit.now_ms)
    visit.console.sessions.begin(visit.visitor_id, session)
    return visit.go_to(local_address(then, visit.console.config.path_prefix))


async def _is_user(visit: Visit, user: str, secret: str) -> bool:
    """Raises `CallFailed` when no server answers."""
    session = VisitorSession(user, secret, visit.now_ms, visit.now_ms)
    request = admin.TestAccessRequest(resource=CLUSTER, actions=["Get"])
    headers = session.signed.at(visit.now_ms // 1000)
    try:
        answer = await visit.console.calls.ask("TestAccess", request, headers)
    except CallFailed as failed:
        if failed.failure is Failure.NOT_KNOWN:
            return False
        if failed.failure is Failure.DENIED:  # known, and then asked for the admin secret
            return SECRET_WORDS in failed.text
        raise
    return bool(answer.username == user) or not answer.authentication


def local_address(text: str, prefix: str) -> str:
    """Where to go after the log-in: a page of this console, never another site."""
    start = f"{prefix}/"
    parts = urlsplit(text) if text.isprintable() and "\\" not in text else None
    if parts is None or parts.scheme or parts.netloc or not parts.path.startswith(start):
        return start
    return text if not text.startswith("//") else start


def _page(
    visit: Visit, status: int = 200, *, then: str, tried: str = "", wrong: str = ""
) -> Response:
    return visit.page("login.html", status, area="", then=then, tried=tried, wrong=wrong)


async def logout(visit: Visit) -> Response:
    """Raises `FormRefused`."""
    await visit.form()
    visit.console.sessions.end(visit.visitor_id)
    visit.visitor_id = new_visitor_id()
    return visit.go("/")
