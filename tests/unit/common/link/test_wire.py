"""Errors travel by class name and fields, whatever the other side puts there."""

import pytest

from popmq_common.errors import PopMQError, TopicNotFound
from popmq_common.link.wire import UnknownFailure, error_of, failure_of
from popmq_internal.v1 import link_pb2 as link


def test_an_error_arrives_as_itself() -> None:
    arrived = error_of(failure_of(TopicNotFound(topic="orders")))
    assert (type(arrived), arrived.fields) == (TopicNotFound, {"topic": "orders"})


@pytest.mark.parametrize("fields", [{}, {"self": "x"}, {"": "{}"}, {"topic": "{0} {x!r:9}"}])
@pytest.mark.parametrize("name", ["TopicNotFound", "PopMQError", "", "NoSuchError", "__init__"])
def test_any_failure_is_an_error_of_ours(name: str, fields: dict[str, str]) -> None:
    arrived = error_of(link.Failure(error=name, fields=fields))
    assert isinstance(arrived, PopMQError)
    assert str(arrived)
    assert isinstance(arrived, UnknownFailure) == (name not in ("TopicNotFound", "PopMQError"))
