"""Whose a topic is, and whose the messages are that a group takes of it."""

import pytest

from popmq_pipelines.cluster.owners import GROUP, TOPIC, Owners, newest

OWNERS = Owners(
    {
        (TOPIC, "orders"): "shop",
        (TOPIC, "events"): "",
        (GROUP, "billing"): "money",
        (GROUP, "a"): "short",
        (GROUP, "a_b"): "long",
        (GROUP, "nobody"): "",
    }
)


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        ("orders", "shop"),
        ("events", ""),
        ("unknown", ""),
        ("%RETRY%billing_orders", "money"),
        ("%RETRY%billing", "money"),
        ("%RETRY%unknown_orders", ""),
        ("%DLQ%billing", "money"),
        ("%RETRY%a_b_c", "long"),  # of a_b for c, or of a for b_c: the longer name
        ("%RETRY%a_c", "short"),
    ],
)
def test_of_a_topic(topic: str, owner: str) -> None:
    assert OWNERS.of_topic(topic) == owner


def test_what_a_group_takes_is_its_own_or_else_the_topic_s() -> None:
    assert OWNERS.of_taken("orders", "billing") == "money"
    assert OWNERS.of_taken("orders", "nobody") == "shop"
    assert OWNERS.of_taken("orders", "") == "shop"
    assert OWNERS.of_taken("%RETRY%billing_orders", "billing") == "money"


def test_of_brokers_that_differ_what_was_said_last_holds() -> None:
    said = [{(TOPIC, "orders"): (5, "old")}, {(TOPIC, "orders"): (9, "")}, {}]
    assert newest(said).of_topic("orders") == ""
    assert newest(said[:1]).of_topic("orders") == "old"
