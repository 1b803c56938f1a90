"""Around every request: the host is one of ours, forms are small, and answers carry the headers
that keep browsers from running, framing or keeping anything of others."""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from popmq_console.guard.hosts import is_allowed

FORM_BYTES_MAX: Final = 5 << 20
"""A test message has at most 4 MiB."""
CSP: Final = "; ".join(
    [
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "img-src 'self' data:",
        "object-src 'none'",
    ]
)
HEADERS: Final = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
SAFE_METHODS: Final = ("GET", "HEAD")


class HttpGuard:
    """ASGI."""

    def __init__(self, app: ASGIApp, allowed_hosts: frozenset[str]) -> None:
        self._app = app
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.update(HEADERS)
                if "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
                message["headers"] = headers.raw
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_allowed(host, self._allowed_hosts):
            text = f"The console is not served as {host!r}: start it with --allowed-host NAME.\n"
            return PlainTextResponse(text, 421)
        if scope["method"] in SAFE_METHODS:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return PlainTextResponse("A form of another site is not taken.\n", 403)
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return PlainTextResponse("Say the length of the form: Content-Length.\n", 411)
        if int(length[:12]) > FORM_BYTES_MAX:
            return PlainTextResponse(f"At most {FORM_BYTES_MAX} bytes are taken.\n", 413)
        return None
