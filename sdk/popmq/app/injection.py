"""Parameters of handlers that FastDepends fills in: pip install 'popmq[depends]'.

@app.handler("orders", "billing", serializer=Model(Order))
async def bill(order: Order, session: Session = Depends(open_session)) -> None: ...

A handler that asks for none does not come here, and FastDepends need not be installed.
"""

import sys
from collections.abc import Callable
from typing import Any

from popmq._core.parameters import parameters


def filled_in(function: Callable[..., Any]) -> set[str]:
    """Names of the parameters with a `Depends`, as default or in `Annotated`."""
    loaded = sys.modules.get("fast_depends.dependencies")  # else nobody can have asked for it
    if loaded is None:
        return set()
    found = set()
    for one in parameters(function):
        said = (one.default, *getattr(one.annotation, "__metadata__", ()))
        if any(isinstance(part, loaded.Dependant) for part in said):
            found.add(one.name)
    return found


def injected(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function if it asks for nothing. Values are not converted: serializers do that."""
    if not filled_in(function):
        return function
    from fast_depends import inject

    filled: Callable[..., Any] = inject(function, cast=False)
    return filled
