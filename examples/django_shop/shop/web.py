"""Orders are stored, and sent when they are. A process that dies between commit and send loses the
message: examples/outbox.py has both or none."""

from functools import cache

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from popmq.sync import SyncClient
from shop.models import Order


@cache
def queue() -> SyncClient:
    """Of this process: made when it is first needed, so after the server has forked."""
    return SyncClient(settings.POPMQ_ENDPOINT)


def order(request: HttpRequest, number: str) -> JsonResponse:
    if request.method == "POST":
        with transaction.atomic():
            Order.objects.create(number=number)
            transaction.on_commit(lambda: queue().send("shop-orders", number.encode()))
        return JsonResponse({}, status=202)
    return JsonResponse({"billed": Order.objects.get(number=number).billed})


urlpatterns = [path("orders/<str:number>", order)]
