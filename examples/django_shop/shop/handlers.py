"""popmq run shop.handlers"""

import os
from collections.abc import Callable
from functools import wraps

import django
from django.conf import settings
from django.db import close_old_connections

from popmq import App

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()

from shop.models import Order  # noqa: E402 # Django has to be set up first

app = App(settings.POPMQ_ENDPOINT)
app.group("shop-billing", start="first")


def in_database(handler: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A handler without `async` has a thread; its connection is looked after as in a request."""

    @wraps(handler)
    def handled(body: bytes) -> None:
        close_old_connections()
        try:
            handler(body)
        finally:
            close_old_connections()

    return handled


@app.handler("shop-orders", "shop-billing", concurrency=4)
@in_database
def bill(body: bytes) -> None:
    Order.objects.filter(number=body.decode()).update(billed=True)
