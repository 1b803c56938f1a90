"""How many processes a service has: a number, or what suits the machine."""

import os
from typing import Final

import click

from popmq_common.workers.cores import CORES_MAX, auto_cores


class Cores(click.ParamType):  # type: ignore[type-arg] # generic in stubs
    name = "cores"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if value == "auto":
            return auto_cores(os.cpu_count() or 1)
        try:
            cores = int(value)
        except ValueError:
            cores = 0
        if not 1 <= cores <= CORES_MAX:
            self.fail(f"{value!r} is neither auto nor a number from 1 to {CORES_MAX}", param, ctx)
        return cores


CORES: Final = Cores()
N_OR_AUTO: Final = "N|auto"
