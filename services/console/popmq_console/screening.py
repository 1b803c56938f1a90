"""Around every screen: who visits, log-in where the server wants one, and failures as pages."""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from popmq_common.process.clock import Clock
from popmq_console.guard.tokens import cookie_of, visitor_of
from popmq_console.pages.login import new_visitor_id
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.routes import Route
from popmq_console.visit import Console, FormRefused, MustLogIn, Visit

COOKIE: Final = "popmq_console"
STATUSES: Final = {
    Failure.UNREACHABLE: (502, "No server answers"),
    Failure.NOT_KNOWN: (403, "Log in again"),
    Failure.DENIED: (403, "You may not do that"),
    Failure.NOT_THERE: (404, "Not there"),
    Failure.OLDER: (501, "The server is older"),
    Failure.REFUSED: (400, "The server refuses that"),
}
ADVICE: Final = {
    Failure.UNREACHABLE: "Load the page again later; popmq doctor tells what is wrong.",
    Failure.DENIED: "Ask a Super user for a policy: popmq acl create USER --resource … --action …",
}


def screened(
    console: Console, clock: Clock, route: Route
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visitor_id = visitor_of(console.key, request.cookies.get(COOKIE, ""))
        visit = Visit(console, request, visitor_id or new_visitor_id(), clock.now_ms())
        response = await answered(visit, route)
        if visit.visitor_id != visitor_id:
            _set_cookie(response, visit)
        return response

    return answer


async def answered(visit: Visit, route: Route) -> Response:
    """The screen, or the page that says why there is none."""
    try:
        if not route.is_open:
            await visit.stand()
        return await route.screen(visit)
    except MustLogIn:
        return _to_log_in(visit)
    except FormRefused as refused:
        return _failure(visit, 400, "Not done", str(refused))
    except CallFailed as failed:
        status, title = STATUSES[failed.failure]
        return _failure(visit, status, title, failed.text, ADVICE.get(failed.failure, ""))
    except HTTPException as wrong:  # of a form that cannot be read
        return _failure(visit, wrong.status_code, "Not done", wrong.detail)


def _to_log_in(visit: Visit) -> Response:
    if visit.request.headers.get("hx-request"):
        return Response("log in again", 401)  # of a live part; the page says that it is old
    address = visit.request.url
    then = f"{address.path}?{address.query}" if address.query else address.path
    return visit.go("/login", then=then if visit.request.method == "GET" else "")


def _failure(visit: Visit, status: int, title: str, text: str, todo: str = "") -> Response:
    back = visit.here() if visit.request.method == "GET" else ""
    return visit.page("error.html", status, area="", title=title, text=text, todo=todo, back=back)


def _set_cookie(response: Response, visit: Visit) -> None:
    config = visit.console.config
    response.set_cookie(
        COOKIE,
        cookie_of(visit.console.key, visit.visitor_id),
        path=f"{config.path_prefix}/",
        secure=config.secure_cookie,
        httponly=True,
        samesite="strict",
    )
