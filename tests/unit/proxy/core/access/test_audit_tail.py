"""Which lines of its audit trail does a proxy remember?"""

from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.access.audit_tail import AuditTail


def tail_with(count: int, lines_max: int) -> AuditTail:
    tail = AuditTail(lines_max)
    for at in range(count):
        tail.add(link.AuditLine(at_ms=at))
    return tail


def test_the_oldest_lines_are_forgotten_and_counted() -> None:
    tail = tail_with(5, 3)
    assert [one.number for one in tail.lines()] == [2, 3, 4]
    assert (tail.written, tail.left_out) == (5, 2)


def test_what_somebody_lacks_is_told_in_pieces() -> None:
    tail = tail_with(5, 3)
    assert [one.number for one in tail.since(0, 2)] == [2, 3]
    assert [one.number for one in tail.since(4, 2)] == [4]
    assert tail.since(5, 2) == []
    assert tail.since(99, 2) == []
    assert AuditTail().since(0, 2) == []
