"""What is installed here."""

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """Of PopMQ. Read once: it takes milliseconds, and consoles ask each few seconds."""
    return metadata.version("popmq")
