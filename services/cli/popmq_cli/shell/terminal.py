"""A terminal that is drawn anew and listens for a key, given back as it was."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""The other screen, without a cursor."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_REST: Final = "\x1b[J"
LEAVING_KEYS: Final = b"qQ\x1b"


@contextmanager
def full_screen(leave: asyncio.Event) -> Iterator[None]:
    """q sets `leave`. What was on the screen before comes back, whatever happens inside."""
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed() -> None:
        keys = os.read(keyboard, 64)
        if not keys or any(key in LEAVING_KEYS for key in keys):
            leave.set()

    try:
        tty.setcbreak(keyboard)
        loop.add_reader(keyboard, pressed)
        sys.stdout.write(_ENTER)
        yield
    finally:
        loop.remove_reader(keyboard)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def draw(lines: Sequence[str]) -> None:
    """Over what is there, so that nothing flickers."""
    text = "\r\n".join(line + _CLEAR_LINE for line in lines)
    sys.stdout.write(_HOME + text + _CLEAR_REST)
    sys.stdout.flush()
