"""The files beside the pages: styles, scripts, the icon. Read once; browsers ask whether they
changed."""

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
FOLDERS: Final = ("", "vendor")
CACHE: Final = "private, no-cache"


class StaticFiles:
    """ASGI."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        """Path → bytes, type, ETag."""
        root = files("popmq_console") / "static"
        for folder in FOLDERS:
            for one in (root / folder if folder else root).iterdir():
                kind = TYPES.get(one.name.rpartition(".")[2])
                if one.is_file() and kind is not None:
                    data = one.read_bytes()
                    path = f"{folder}/{one.name}" if folder else one.name
                    self._files[path] = data, kind, f'"{sha256(data).hexdigest()[:20]}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("GET alone\n", 405)
        request = Request(scope)
        path = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
        found = self._files.get(path)
        if found is None:
            return PlainTextResponse("There is no such file.\n", 404)
        data, kind, tag = found
        headers = {"etag": tag, "cache-control": CACHE}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)
