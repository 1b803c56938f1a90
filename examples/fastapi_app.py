"""A FastAPI service that sends what it is asked, and handles it beside. Needs fastapi, uvicorn.

uvicorn fastapi_app:api
curl -X POST localhost:8000/orders/7
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from popmq import App, Json

app = App(os.environ.get("POPMQ_ENDPOINT", "127.0.0.1:8081"))
app.group("web-billing", start="first")


@app.handler("web-orders", "web-billing", serializer=Json(), concurrency=8)
async def bill(order: dict[str, str]) -> None:
    print(f"order {order['number']} is billed", flush=True)


@asynccontextmanager
async def lifespan(service: FastAPI) -> AsyncIterator[None]:
    async with app:  # or run the handlers elsewhere: popmq run fastapi_app:app
        service.state.producer = app.client.producer(Json())
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/orders/{number}", status_code=202)
async def place(number: str) -> dict[str, str]:
    receipt = await api.state.producer.send("web-orders", {"number": number}, keys=number)
    return {"message_id": receipt.message_id}
