"""Server-sent events, as bytes; and the part of a page that is live.

    event: live
    data: <section id="live">…
    data: …</section>

Source: the HTML standard, "Server-sent events".
"""

import re
from typing import Final

LIVE: Final = "live"
"""A new state of the page's live part."""
FAILED: Final = "failed"
"""There is none: why."""
BEAT: Final = "beat"
"""The stream is alive, and nothing has changed."""
END: Final = "end"
"""The server will send no more: why."""
_PART: Final = re.compile(r'<section id="live".*?</section>', re.DOTALL)
_NEW_LINE: Final = re.compile(r"\r\n|\r|\n")


def event(name: str, data: str = "") -> bytes:
    lines = "".join(f"data: {line}\n" for line in _NEW_LINE.split(data))
    return f"event: {name}\n{lines}\n".encode()


def live_part(page: str) -> str | None:
    """Of a page of this console, in which what others wrote is escaped; None: it has none."""
    found = _PART.search(page)
    return None if found is None else found[0]
