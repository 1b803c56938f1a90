# shipping.py
"""Ships each order whose item is in stock.txt; that file has one item per line."""

from pathlib import Path

from popmq import App, Json

app = App("127.0.0.1:8081")
app.group("shipping", start="first", max_attempts=3, retry=[1, 2])


@app.handler("orders", "shipping", serializer=Json())
def ship(order: dict[str, str]) -> None:
    if order["item"] not in Path("stock.txt").read_text().split():
        raise LookupError(f"no {order['item']} in stock")
    print("shipped order", order["number"], flush=True)
