"""The web console in the process of a standalone, on this machine alone."""

import errno
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from popmq import Tls
from popmq_cli.servers.console_options import CONSOLE_PORT
from popmq_cli.shell.output import note
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import Standalone

HOST: Final = "127.0.0.1"
ANY_ADDRESS: Final = ("0.0.0.0", "::", "")


@asynccontextmanager
async def beside(
    served: Standalone, proxy: ProxyConfig, port: int | None
) -> AsyncIterator[str | None]:
    """Its URL. `port` None: the default one; where that is taken, as by another standalone, there
    is no console, and a note says so. Raises `OSError` for a port that was asked for."""
    from popmq_console.app import console
    from popmq_console.config import ConsoleConfig

    config = ConsoleConfig(
        endpoint=_endpoint(served, proxy),
        endpoint_from="popmq standalone",
        tls=_tls(proxy),
        host=HOST,
        port=CONSOLE_PORT if port is None else port,
    )
    async with AsyncExitStack() as stack:
        try:
            found = await stack.enter_async_context(console(config, SystemClock()))
        except OSError as taken:
            if port is not None or taken.errno != errno.EADDRINUSE:
                raise
            note(f"Port {CONSOLE_PORT} is taken, so there is no web console: say --console-port.")
            found = None
        yield None if found is None else found.url


def _tls(proxy: ProxyConfig) -> Tls | None:
    """Only where the port takes nothing else. The certificate has to be made out to this address:
    else `popmq console` is started beside, with the name that it is made out to."""
    if not proxy.tls_only or proxy.tls_cert is None:
        return None
    return Tls(ca=proxy.tls_cert.read_bytes())


def _endpoint(served: Standalone, proxy: ProxyConfig) -> str:
    """Of the same process."""
    host = HOST if proxy.host in ANY_ADDRESS else proxy.host
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{served.proxy.port}"
