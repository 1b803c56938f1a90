"""popmq.admin.v1: dead letters, broker by broker.

A cursor is BROKER:OFFSET:UNTIL: at a broker, where to go on, and of a redrive what was the end when
it began there, so that what fails again is left alone.
"""

from collections.abc import Callable
from typing import NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, GroupNotFound, NoBroker
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream

COUNT_DEFAULT = 100
COUNT_MAX = 1_000
NOTHING_LEFT = -1


class _Place(NamedTuple):
    broker: str
    offset: int = 0
    until: int = 0

    def __str__(self) -> str:
        return ":".join(map(str, self))


class DeadLettersHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def browse(
        self, ctx: CallContext, request: admin.ListDeadLettersRequest
    ) -> admin.ListDeadLettersResponse:
        """What one broker finds in one call, and where to go on. Raises `GroupNotFound`."""

        def asked(place: _Place) -> link.Call:
            call = link.ListDeadLetters(
                group=request.group,
                filter=_filter(request.filter),
                from_offset=place.offset,
                count_max=_count(request.count_max),
                whole=request.whole,
            )
            return link.Call(list_dead_letters=call)

        place, following, reply = await self._ask(request.group, request.cursor, asked)
        if reply is None:
            return admin.ListDeadLettersResponse()
        found = reply.list_dead_letters
        return admin.ListDeadLettersResponse(
            letters=[_letter(place.broker, letter) for letter in found.letters],
            cursor=_cursor(place.broker, following, found.next_offset),
        )

    async def redrive_to_topic(
        self, ctx: CallContext, request: admin.RedriveDeadLettersRequest
    ) -> admin.RedriveDeadLettersResponse:
        """What older clients ask."""
        return await self.redrive(ctx, admin.RedriveRequest(which=request, to_topic=True))

    async def redrive(
        self, ctx: CallContext, request: admin.RedriveRequest
    ) -> admin.RedriveDeadLettersResponse:
        """What one broker sends in one call, and where to go on. Raises `GroupNotFound`,
        `NotServed`: the broker is older, and can only send to topics."""
        which = request.which

        def asked(place: _Place) -> link.Call:
            redrive = link.Redrive(
                group=which.group,
                filter=_filter(which.filter),
                from_offset=place.offset,
                until_offset=place.until,
                count_max=_count(which.count_max),
            )
            if request.to_topic and not request.dry_run:
                return link.Call(redrive=redrive)  # brokers of any version know it
            call = link.RedriveDeadLetters(
                which=redrive, to_topic=request.to_topic, dry_run=request.dry_run
            )
            return link.Call(redrive_dead_letters=call)

        place, following, reply = await self._ask(which.group, which.cursor, asked)
        if reply is None:
            return admin.RedriveDeadLettersResponse()
        done = reply.redrive
        return admin.RedriveDeadLettersResponse(
            sent=done.sent,
            already=done.already,
            without_topic=done.without_topic,
            in_order=done.in_order,
            cursor=_cursor(place.broker, following, done.next_offset, done.until_offset),
        )

    async def purge(
        self, ctx: CallContext, request: admin.PurgeDeadLettersRequest
    ) -> admin.PurgeDeadLettersResponse:
        """Broker after broker: when one fails, those before it have deleted theirs, and the same
        call again does the rest. Raises `GroupNotFound`, `NotServed`: a broker is too old."""
        brokers, _ = await self._begin("")
        until = {queue.broker: queue.until_offset for queue in request.until}
        response = admin.PurgeDeadLettersResponse()
        unknown: GroupNotFound | None = None
        for broker in brokers:
            if until and not until.get(broker):
                continue
            call = link.PurgeDeadLetters(
                group=request.group,
                before_ms=request.before_ms,
                until_offset=until.get(broker, 0),
                dry_run=request.dry_run,
            )
            try:
                reply = await self._upstream.call(broker, link.Call(purge_dead_letters=call))
            except GroupNotFound as missing:  # a broker that joined late
                unknown = missing
                continue
            done = reply.purge_dead_letters
            response.queues.add(
                broker=broker,
                count=done.count,
                redriven=done.redriven,
                until_offset=done.until_offset,
            )
        if unknown is not None and not response.queues:
            raise unknown
        return response

    async def _ask(
        self, group: str, cursor: str, asked: Callable[[_Place], link.Call]
    ) -> tuple[_Place, list[str], link.Reply | None]:
        """The first broker from `cursor` on that knows the group: where it was asked, which
        brokers follow, its answer. A broker that joined late may not know the group; None: none
        that is left does. Raises `GroupNotFound` when no broker at all does.
        """
        brokers, place = await self._begin(cursor)
        while True:
            following = brokers[brokers.index(place.broker) + 1 :]
            try:
                reply = await self._upstream.call(place.broker, asked(place))
                return place, following, reply
            except GroupNotFound:
                if not following and not cursor:
                    raise
                if not following:
                    return place, following, None
                place = _Place(following[0])

    async def _begin(self, cursor: str) -> tuple[list[str], _Place]:
        """The brokers in order, and where to begin. Raises `NoBroker`, `BadRequest`."""
        brokers = sorted(info.name for info in await self._upstream.routes.brokers())
        if not brokers:
            raise NoBroker()
        if not cursor:
            return brokers, _Place(brokers[0])
        try:
            name, offset, until = cursor.rsplit(":", 2)
            place = _Place(name, int(offset), int(until))
        except ValueError:
            raise BadRequest(reason=f"{cursor!r} is no cursor of this call") from None
        if name not in brokers:
            raise BadRequest(reason=f"the cursor is of broker {name}, which is gone")
        return brokers, place


def _cursor(broker: str, following: list[str], next_offset: int, until: int = 0) -> str:
    """Empty: the last broker is done."""
    if next_offset != NOTHING_LEFT:
        return str(_Place(broker, next_offset, until))
    return str(_Place(following[0])) if following else ""


def _count(asked: int) -> int:
    if not 0 <= asked <= COUNT_MAX:
        raise BadRequest(reason=f"{asked} dead letters, at most {COUNT_MAX} by one request")
    return asked or COUNT_DEFAULT


def _filter(asked: admin.DeadLetterFilter) -> link.DeadLetterFilter:
    return link.DeadLetterFilter(
        reason=asked.reason, topic=asked.topic, message_id=asked.message_id
    )


def _letter(broker: str, letter: link.DeadLetter) -> admin.DeadLetter:
    return admin.DeadLetter(
        broker=broker,
        offset=letter.offset,
        topic=letter.topic,
        message_id=letter.message_id,
        attempts=letter.attempts,
        handed_out=letter.handed_out,
        reason=letter.reason,
        stored_ms=letter.stored_ms,
        body_bytes=letter.body_bytes,
        redriven=letter.redriven,
        body=letter.body,
        properties=letter.properties,
        cursor=str(_Place(broker, letter.offset)),
    )
