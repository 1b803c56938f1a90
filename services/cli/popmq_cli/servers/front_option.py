"""--front, of the commands that serve clients."""

from typing import Any

import click

from popmq_proxy.config import NO_ENVOY_FRONT, Front


class FrontName(click.Choice):  # type: ignore[type-arg] # generic in newer ones
    def __init__(self) -> None:
        super().__init__([front.value for front in Front])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value == "envoy":
            self.fail(NO_ENVOY_FRONT, param, ctx)
        return super().convert(value, param, ctx)


FRONT = click.option(
    "--front",
    type=FrontName(),
    default=None,
    help="The HTTP/2 server that clients connect to.  [default: POPMQ_PROXY_FRONT, else http2]",
)
