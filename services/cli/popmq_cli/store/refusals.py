"""Exit codes of popmq store: what is refused is usage, what is damaged is a finding."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from popmq_cli.shell.output import fail
from popmq_common.errors import BadRequest, DirectoryInUse, PopMQError
from popmq_common.process import logs
from popmq_common.process.config import ConfigError

EXIT_SOUND: Final = 0
EXIT_FINDINGS: Final = 1
EXIT_USAGE: Final = 2


def with_exit_codes(command: Callable[..., None]) -> Callable[..., None]:
    """What `command` raises ends the process."""

    @wraps(command)
    def run(*args: Any, **named: Any) -> None:
        try:
            logs.configure("warning")
            command(*args, **named)
        except (BadRequest, DirectoryInUse, ConfigError) as wrong:
            fail(str(wrong), EXIT_USAGE)
        except PopMQError as wrong:
            fail(str(wrong), EXIT_FINDINGS)

    return run
