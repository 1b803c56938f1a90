"""What clients say of messages they hold, and tell the book."""

from collections.abc import Awaitable
from typing import Any

from harness.handle_runs import runs_of
from sim.held_lease import NEVER_MS, Lease
from sim.link import Lost, NotSent, Refused
from sim.model import GroupLife, Standing
from sim.receivers import Held, Receivers
from sim.violation import Violation

from popmq_common.records.receipt import decode as decode_receipt
from popmq_internal.v1 import link_pb2 as link

OLD_KEPT_MAX = 64


class Clients(Receivers):
    def some_held(self, count: int) -> list[Held]:
        """Of one group and topic; the newest deliveries first."""
        while self.held:
            at = self.random.randrange(len(self.held))
            group, standing, _ = chosen = self.held[at]
            if self.book.groups[group.name] is group:
                break
            self.drop([chosen])
        else:
            return []
        topic = standing.message.topic
        same = [one for one in self.held if one[0] is group and one[1].message.topic == topic]
        return self.random.sample(same, min(count, len(same)))

    async def ack(self) -> None:
        chosen = self.some_held(self.random.choice([1, 1, 4, 16]))
        if chosen:
            self.drop(chosen)
            twice = self.random.random() < 0.03
            await self.ack_these(chosen)
            if twice:
                await self.ack_these(chosen)

    async def ack_stale(self) -> None:
        if self.old:
            await self.ack_these([self.random.choice(self.old)])

    def drop(self, chosen: list[Held]) -> None:
        gone = {id(one) for one in chosen}
        self.held = [one for one in self.held if id(one) not in gone]
        self.old = (self.old + chosen)[-OLD_KEPT_MAX:]

    async def ack_these(self, chosen: list[Held]) -> None:
        group, standing, _ = chosen[0]
        topic = standing.message.topic
        request = link.Ack(group=group.name, topic=topic)
        order = self._name(request, chosen)
        for _, standing, lease in chosen:
            lease.acks += 1
            standing.acks_open += 1
        invoked_ms = self.now_ms()
        quakes = self.quake(group.name, topic)
        stale = self.book.groups[group.name] is not group
        try:
            told = (await self.proxy().call(ack=request)).ack.outcomes
            outcomes = [told[i] for i in order]
        except (NotSent, Refused):
            outcomes = [link.LEASE_OUTCOME_UNSPECIFIED for _ in chosen]
        except Lost:
            return
        if self.shaken(quakes, group.name, topic):
            return
        self.world.read_dead_letters()
        for (_, standing, lease), outcome in zip(chosen, outcomes, strict=True):
            standing.acks_open -= 1
            name = link.LeaseOutcome.Name(outcome)
            standing.message.events.append(
                (self.now_ms(), f"{group.name}: ack of {lease.key}: {name}")
            )
            self._ack_answered(standing, lease, outcome, invoked_ms, stale=stale)

    def _name(self, request: Any, chosen: list[Held]) -> list[int]:
        """By handles or by runs; returns where the outcome of each is in the answer."""
        handles = [one[2].handle for one in chosen]
        if self.random.random() < 0.5:
            request.handles.extend(handles)
            return list(range(len(handles)))
        runs, order = runs_of(handles)
        request.runs.extend(runs)
        return order

    def _ack_answered(
        self,
        standing: Standing,
        lease: Lease,
        outcome: int,
        invoked_ms: int,
        *,
        stale: bool,
    ) -> None:
        message = standing.message
        gone = self.book.is_gone(message)
        if outcome == link.LEASE_OUTCOME_DONE:
            if stale or gone:
                raise Violation("I5", "acked for a group or topic that was deleted", message.id)
            self.book.acked(standing, lease, invoked_ms, again=False)
        elif outcome == link.LEASE_OUTCOME_ALREADY_ACKED:
            if not stale and not gone:
                self.book.acked(standing, lease, invoked_ms, again=True)
        elif outcome != link.LEASE_OUTCOME_UNSPECIFIED and not stale and not gone:
            self.book.check_held(standing, lease, self.now_ms(), str(outcome))

    async def change(self) -> None:
        for group, standing, lease in self.some_held(1):
            invisible_ms = self.random.choice([0, 500, 20_000])
            await self._change(group, standing, lease, invisible_ms)

    async def _change(
        self, group: GroupLife, standing: Standing, lease: Lease, invisible_ms: int
    ) -> None:
        topic = standing.message.topic
        request = link.ChangeInvisible(
            group=group.name, topic=topic, handle=lease.handle, invisible_ms=invisible_ms
        )
        free_ms, before_ms = self.now_ms() + invisible_ms, lease.free_ms
        lease.free_ms = min(lease.free_ms, free_ms)
        for made in standing.leases:  # by a change of the same lease: this one may be a repetition
            if made.made_from is lease:
                made.free_ms = min(made.free_ms, free_ms)
        lease.changes_open += 1
        lease.changes += 1
        quakes = self.quake(group.name, topic)
        try:
            reply = (await self.proxy().call(change_invisible=request)).change_invisible
        except (NotSent, Refused):
            return
        except Lost:
            return
        if self.shaken(quakes, group.name, topic):
            return
        lease.changes_open -= 1
        self.world.read_dead_letters()
        outcome = link.LeaseOutcome.Name(reply.outcome)
        text = f"{group.name}: change of {lease.key} to {invisible_ms} ms: {outcome}"
        standing.message.events.append((self.now_ms(), text))
        if reply.outcome == link.LEASE_OUTCOME_DONE:
            self._changed(group, standing, lease, reply.handle)
        elif not lease.changes_open and not lease.may_be_released and lease.nacked_ms == NEVER_MS:
            lease.free_ms = before_ms

    def _changed(self, group: GroupLife, standing: Standing, lease: Lease, handle: str) -> None:
        receipt = decode_receipt(handle)
        name = standing.message.id
        known = standing.lease((receipt.log_offset, receipt.generation))
        if known is not None and known.made_from is lease:  # the change was asked again
            known.due_ms = max(known.due_ms, receipt.pop_time_ms + receipt.invisible_ms)
            return
        new = Lease(
            key=(receipt.log_offset, receipt.generation),
            handle=handle,
            pop_ms=receipt.pop_time_ms,
            due_ms=receipt.pop_time_ms + receipt.invisible_ms,
            attempt=lease.attempt,
            attempt_id=lease.attempt_id,
            lost_before=lease.lost_before,
            made_from=lease,
            free_ms=lease.free_ms if lease.changes > 1 else NEVER_MS,
        )
        steps = new.key[1] - lease.key[1]  # one that is asked again for less time makes one more
        if new.key[0] != lease.key[0] or not 1 <= steps <= lease.changes:
            raise Violation("I5", f"{lease.key} became {new.key}", name)
        if standing.lease(new.key) is not None:
            raise Violation("I4", f"lease {new.key} was given out twice", name)
        if standing.acked is not None and new.key > standing.acked:
            raise Violation("I3", "changed after its ack was answered", name)
        standing.leases.append(new)
        standing.leases.sort(key=lambda one: one.key)
        self.drop([one for one in self.held if one[2] is lease])
        self.held.append((group, standing, new))

    async def extend(self) -> None:
        """Several are held longer under their handles."""
        chosen = self.some_held(self.random.choice([1, 4, 16]))
        if not chosen:
            return
        group, topic = chosen[0][0], chosen[0][1].message.topic
        invisible_ms = self.random.choice([500, 20_000])
        runs, order = runs_of([lease.handle for _, _, lease in chosen])
        request = link.Extend(group=group.name, topic=topic, runs=runs, invisible_ms=invisible_ms)
        for _, _, lease in chosen:
            lease.extends_open += 1
        settled = [standing.acked is not None for _, standing, _ in chosen]
        invoked_ms, quakes = self.now_ms(), self.quake(group.name, topic)
        stale = self.book.groups[group.name] is not group
        try:
            told = (await self.proxy().call(extend=request)).extend.outcomes
        except (NotSent, Refused, Lost):
            return
        if self.shaken(quakes, group.name, topic):
            return
        self.world.read_dead_letters()
        for (_, standing, lease), was_settled, place in zip(chosen, settled, order, strict=True):
            lease.extends_open -= 1
            text = f"{lease.key} extended by {invisible_ms} ms: {told[place]}"
            standing.message.events.append((self.now_ms(), f"{group.name}: {text}"))
            if told[place] != link.LEASE_OUTCOME_DONE:
                if not stale and not self.book.is_gone(standing.message):
                    self.book.check_held(standing, lease, self.now_ms(), text)
            elif was_settled or stale:
                raise Violation("I3", f"{text} after its ack was answered", standing.message.id)
            else:
                lease.due_ms = max(lease.due_ms, invoked_ms + invisible_ms)
                lease.longest_ms = max(lease.longest_ms, self.now_ms() + invisible_ms)

    async def nack(self) -> None:
        """Several are given back, for later; the attempt counts or not."""
        chosen = self.some_held(self.random.choice([1, 4, 16]))
        if not chosen:
            return
        self.drop(chosen)
        group, topic = chosen[0][0], chosen[0][1].message.topic
        counted, delay_ms = self.random.random() < 0.5, self.random.choice([0, 500, 20_000])
        kind = link.NACK_KIND_COUNTED if counted else link.NACK_KIND_UNCOUNTED
        request = link.Nack(group=group.name, topic=topic, kind=kind, delay_ms=delay_ms)
        order = self._name(request, chosen)
        before = [
            (lease.free_ms, standing.acked is not None, standing.may_only_be_ended_by(lease))
            for _, standing, lease in chosen
        ]
        invoked_ms, quakes = self.now_ms(), self.quake(group.name, topic)
        stale, starts = self.book.groups[group.name] is not group, self.book.starts
        for _, _, lease in chosen:
            lease.free_ms = min(lease.free_ms, invoked_ms + delay_ms)
            lease.changes_open += 1
            lease.may_be_released |= not counted
        try:
            told = (await self.proxy().call(nack=request)).nack.outcomes
        except (NotSent, Refused, Lost):
            return
        if self.shaken(quakes, group.name, topic):
            return
        self.world.read_dead_letters()
        for (_, standing, lease), was, place in zip(chosen, before, order, strict=True):
            free_ms, was_settled, alone = was
            lease.changes_open -= 1
            kind_name = "nack" if counted else "uncounted nack"
            text = f"{group.name}: {kind_name} of {lease.key}: {told[place]}"
            standing.message.events.append((self.now_ms(), text))
            if told[place] != link.LEASE_OUTCOME_DONE:
                if alone and not lease.changes_open:
                    lease.free_ms = free_ms
                if not stale and not self.book.is_gone(standing.message):
                    self.book.check_held(standing, lease, self.now_ms(), text)
                continue
            if was_settled or stale or lease.nacked_ms != NEVER_MS:
                raise Violation("I3", f"{text}, but it was done with before", standing.message.id)
            lease.nacked_ms = self.now_ms()
            if alone and not counted and not standing.may_be_settled:
                lease.released = starts

    async def release(self) -> None:
        chosen = self.some_held(self.random.choice([1, 4]))
        if not chosen:
            return
        self.drop(chosen)
        group, standing, _ = chosen[0]
        sure = [
            one
            for one in chosen
            if one[1].may_only_be_ended_by(one[2]) and not self.book.is_gone(one[1].message)
        ]
        for _, _, lease in chosen:
            lease.free_ms = min(lease.free_ms, self.now_ms())
            lease.may_be_released = True
        handles = [lease.handle for _, _, lease in chosen]
        request = link.Release(group=group.name, topic=standing.message.topic, handles=handles)
        quakes, starts = self.quake(group.name, standing.message.topic), self.book.starts
        if not await self._quietly(self.proxy().call(release=request)):
            return
        for _, standing, lease in sure:
            if self.shaken(quakes, group.name, standing.message.topic):
                continue
            alone = not standing.acks_open and not lease.may_be_replaced
            if alone and self.now_ms() < lease.due_ms:
                lease.released = starts

    async def forward(self) -> None:
        for held in self.some_held(1):
            self.drop([held])
            group, standing, lease = held
            topic = standing.message.topic
            request = link.ForwardDeadLetter(
                group=group.name, topic=topic, handle=lease.handle, reason="it is broken"
            )
            quakes = self.quake(group.name, topic)
            alone = standing.may_only_be_ended_by(lease) and not self.book.is_gone(standing.message)
            standing.forwards_open += 1
            if not await self._quietly(self.proxy().call(forward_dead_letter=request)):
                continue
            self.world.read_dead_letters()
            standing.message.events.append((self.now_ms(), f"{group.name}: forwarded {lease.key}"))
            alone = alone and standing.newest is lease and not lease.may_be_replaced
            alone = alone and standing.acked is None and not standing.acks_open
            in_time = self.now_ms() < lease.held_until_ms
            if alone and in_time and not self.shaken(quakes, group.name, topic):
                standing.must_be_dead = True
                if standing.dead is None:
                    raise Violation("I9", "forwarded, but not there", standing.message.id)

    async def _quietly(self, call: Awaitable[Any]) -> bool:
        try:
            await call
        except (NotSent, Refused, Lost):
            return False
        return True
