"""The attributes of topics.json have the names that every version wrote: a directory is read by
later versions, and by earlier ones after a downgrade."""

import pytest

from popmq_broker.core.catalog.tables import TopicConfig, topic_fields, topic_of

PLACED = TopicConfig(
    name="orders", read_queues=8, write_queues=8, order_conf="broker-a:8;broker-b:8"
)


def test_where_message_groups_are_is_written_under_its_name() -> None:
    assert topic_fields(PLACED)["attributes"]["popmq.order.conf"] == PLACED.order_conf


@pytest.mark.parametrize("name", ["popmq.order.conf", "popmq.fifo_queue.conf"])
def test_where_message_groups_are_is_read_under_each_name_that_was_written(name: str) -> None:
    """For some days versions wrote the second one."""
    fields = topic_fields(PLACED)
    del fields["attributes"]["popmq.order.conf"]
    fields["attributes"][name] = PLACED.order_conf
    assert topic_of(fields) == PLACED
