"""Where the business key comes from, and what is said when there is none."""

import pytest
from unit.sdk.idempotence.made import message

from popmq import ReceivedMessage
from popmq.idempotence import KeyMissing, KeyOf, body_path, message_key, message_property
from popmq.idempotence.key import KEY_BYTES_MAX, key_of


@pytest.mark.parametrize(
    ("select", "key"),
    [
        (message_key(), "order-1"),
        (message_property("order"), "7"),
        (body_path("order.id"), "12"),
        (body_path("items.1.sku"), "b"),
        (lambda found: found.body.decode()[:1], "{"),
    ],
)
def test_a_key_is_found(select: KeyOf, key: str) -> None:
    body = b'{"order": {"id": 12}, "items": [{"sku": "a"}, {"sku": "b"}]}'
    assert key_of(message(body=body, properties={"order": "7"}), select) == key


def nothing(found: ReceivedMessage) -> str | None:
    return None


@pytest.mark.parametrize(
    ("select", "why"),
    [
        (message_key(), "it has 0 keys, wanted is 0"),
        (message_property("order"), "property 'order' is not set"),
        (message_property("empty"), "property 'empty' is empty"),
        (body_path("order.number"), "its body has no order.number"),
        (body_path("items.5"), "its body has no items.5"),
        (body_path("price"), "price is a float"),
        (body_path("paid"), "paid is a bool"),
        (body_path("order"), "order is a dict"),
        (nothing, "nothing returned None"),
    ],
)
def test_a_missing_key_names_the_message_and_the_reason(select: KeyOf, why: str) -> None:
    body = b'{"order": {"id": 1}, "items": [1], "price": 1.5, "paid": true}'
    with pytest.raises(KeyMissing, match="message 01AB of topic orders, group billing") as raised:
        key_of(message(None, body, properties={"empty": ""}), select)
    assert why in raised.value.why


@pytest.mark.parametrize("body", [b"not json", b"\xff\xfe\x00"])
def test_a_body_that_is_no_json(body: bytes) -> None:
    with pytest.raises(KeyMissing, match="no JSON"):
        key_of(message(body=body), body_path("id"))


def test_keys_that_a_store_cannot_hold_stay_different() -> None:
    long = "x" * (KEY_BYTES_MAX + 1)
    keys = [long, long + "y", "a\x00b", "a\x00c", "x" * KEY_BYTES_MAX]
    found = [key_of(message(key), message_key()) for key in keys]
    assert len(set(found)) == len(keys)
    assert all(len(key.encode()) <= KEY_BYTES_MAX for key in found)
    assert found[-1] == keys[-1]
