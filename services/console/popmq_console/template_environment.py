"""The templates, and how they write figures, times and links."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted, moment
from popmq_console.reading.bodies_shown import head_line
from popmq_console.reading.commands import command
from popmq_console.visit import named
from popmq_readings.short_numbers import bytes_text, count_text, percent_text, rate_text, up_text
from popmq_readings.times import TIME_MS_MAX, duration_text, span_text

NOT_KNOWN: Final = Markup('<span class="unknown" title="not known">–</span>')
"""Never 0: nobody has told it."""


def known(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """`text`, but a dash for what is not known."""
    return lambda value: NOT_KNOWN if value is None else text(value)


def when(ms: int) -> Markup:
    """A point in time: UTC here, and the reader's own zone once the page's script has run."""
    if not 0 < ms <= TIME_MS_MAX:
        return NOT_KNOWN
    at = moment(ms)
    short = f"{at[:10]} {at[11:19]}"
    return Markup('<time datetime="{}" data-ms="{}" title="{} UTC">{}</time>').format(
        at, ms, at, short
    )


def ago(ms: int, now_ms: int) -> Markup:
    """How long ago, with the time on hover."""
    if not 0 < ms <= TIME_MS_MAX:
        return NOT_KNOWN
    at, span = moment(ms), span_text(max(0, now_ms - ms))
    return Markup('<time datetime="{}" data-at="{}" title="{} UTC">{} ago</time>').format(
        at, ms, at, span
    )


def first_line(message: admin.StoredMessage) -> str:
    return head_line(message.body, message.body_bytes)


@cache
def environment() -> Environment:
    """Made once: it keeps the templates that it has compiled."""
    made = Environment(
        loader=PackageLoader("popmq_console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "counted": counted,
        "command": command,
        "named": named,
        "ago": ago,
        "nav": NAVIGATION,
    }
    made.filters |= {
        "count": known(count_text),
        "size": known(bytes_text),
        "rate": lambda value: NOT_KNOWN if value is None else rate_text(value),
        "percent": known(percent_text),
        "up": known(up_text),
        "span": known(span_text),
        "duration": known(duration_text),
        "head_line": first_line,
        "when": when,
    }
    return made


NAVIGATION: Final = [
    ("/", "Overview", "o"),
    ("/topics", "Topics", "t"),
    ("/groups", "Groups", "g"),
    ("/dead-letters", "Dead letters", "d"),
    ("/later", "Delayed", "l"),
    ("/cluster", "Cluster", "c"),
    ("/audit", "Audit", "u"),
    ("/access", "Access", "a"),
]
"""Path, what it is called, and the key behind g that leads there."""
