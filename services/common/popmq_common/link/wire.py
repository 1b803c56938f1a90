"""Errors ⇄ the link's `Failure`: by class name and fields."""

from popmq_common.errors import PopMQError, Unavailable, all_errors
from popmq_internal.v1 import link_pb2 as link


class UnknownFailure(Unavailable):
    """The other service failed with {error}: {details}."""


def failure_of(error: PopMQError) -> link.Failure:
    return link.Failure(error=type(error).__name__, fields=error.fields)


def error_of(failure: link.Failure) -> PopMQError:
    """The error the other side raised; `UnknownFailure` for a class this version lacks."""
    known = all_errors().get(failure.error)
    if known is None:
        return UnknownFailure(error=failure.error, details=dict(failure.fields))
    return known(**dict(failure.fields))
