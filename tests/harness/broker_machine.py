"""The broker core as a state machine: any order of sends, pops, acks, changes, signs of life and
goodbyes of clients, time, restarts and crashes keeps the promises.

I1 what was answered OK is delivered · I2 unchanged · I3 never after an ack answered OK · I4 never
to two holders at a time · I5 one ack of a message is done, by the newest handle · I8 the attempt
grows by one per counted delivery · I13 all of it over restarts and crashes that lose what was not
synced.
"""

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

from harness.broker import QUICK_DISK, EngineDriver
from harness.broker_calls import Popped, ack_body, change_body, nack_body, pop_body, send_body
from harness.names import GROUP, TOPIC
from harness.told import LEASE_MS_MAX, Told
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from popmq_internal.v1 import link_pb2 as link

DONE, CLIENTS, GRACE_MS, SENT_FIRST = link.LEASE_OUTCOME_DONE, ["c1", "c2"], 700, 3
"""Hypothesis leaves out rules at random; a history without a send would ask nothing."""
POP_MS = st.sampled_from([100, 1_000, 10_000])


class BrokerMachine(RuleBasedStateMachine):
    delivered = 0
    """By all histories of the class together."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.driver = self._driver()
        self.driver.make(max_attempts=1_000)
        self.told: dict[str, Told] = {}
        self.sent = 0
        self.send(SENT_FIRST)

    def _driver(self) -> EngineDriver:
        return EngineDriver(
            Path(self._folder.name), renewed_lease_ms_max=LEASE_MS_MAX, goodbye_grace_ms=GRACE_MS
        )

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            self._drain()
        finally:
            self.driver.close()
            self._folder.cleanup()

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            body = self._next_body()
            self.driver.send(body)
            self.told[body] = Told(body)

    @rule(count=st.integers(1, 8), invisible_ms=POP_MS, by_runs=st.booleans())
    def pop(self, count: int, invisible_ms: int, by_runs: bool) -> None:
        self._received(self.driver.pop(count, invisible_ms, by_runs=by_runs))

    def _some_held(self, pick: random.Random, count: int) -> list[Told]:
        held = [told for told in self.told.values() if told.has_handle]
        return pick.sample(held, min(count, len(held)))

    @rule(pick=st.randoms(use_true_random=False), count=st.integers(1, 5), by_runs=st.booleans())
    def ack_newest(self, pick: random.Random, count: int, by_runs: bool) -> None:
        chosen = self._some_held(pick, count)
        ack = self.driver.ack_by_runs if by_runs else self.driver.ack
        outcomes = ack(*(told.handles[-1] for told in chosen)) if chosen else []
        for told, outcome in zip(chosen, outcomes, strict=True):
            self._acked(told, outcome)

    @rule(
        count=st.integers(1, 8),
        invisible_ms=st.sampled_from([1_000, 10_000]),
        client=st.sampled_from(CLIENTS),
        by_runs=st.booleans(),
    )
    def pop_renewed(self, count: int, invisible_ms: int, client: str, by_runs: bool) -> None:
        messages = self.driver.pop(count, invisible_ms, renewed_by=client, by_runs=by_runs)
        self._received(messages)
        for message in messages:
            told = self.told[message.body.decode()]
            told.client, told.renew_ms = client, invisible_ms

    @rule(clients=st.sampled_from([["c1"], ["c2"], ["c2", "c1"], ["c3"]]))
    def sign_of_life(self, clients: list[str]) -> None:
        self.driver.alive(*clients)
        for told in self._renewable(clients):
            if told.renewal_unknown or told.change_unknown:
                told.perhaps_renewed(self._now())
            else:
                told.held_until_ms = told.perhaps_until_ms = told.renewed_until(self._now())

    def _renewable(self, clients: list[str]) -> list[Told]:
        """What they hold, perhaps."""
        return [told for told in self.told.values() if told.client in clients and not told.acked]

    @rule(client=st.sampled_from(CLIENTS))
    def goodbye(self, client: str) -> None:
        self.driver.gone(client)
        for told in self._renewable([client]):
            told.held_until_ms = min(told.held_until_ms, self._now() + GRACE_MS)
            told.returned = told.renewal_unknown = True

    def _acked(self, told: Told, outcome: int) -> None:
        live = self._now() < told.held_until_ms
        if outcome == DONE:
            assert self._now() < told.perhaps_until_ms, f"{told} was acked after its time"
            assert not told.acked, f"{told} was acked twice"
            told.acked = True
        elif told.ack_unknown and outcome == link.LEASE_OUTCOME_ALREADY_ACKED:
            told.acked = True
        elif live and not told.acked and not told.ack_unknown and not told.change_unknown:
            raise AssertionError(f"{told} is held, but its ack found {outcome}")

    @rule(pick=st.randoms(use_true_random=False))
    def ack_stale(self, pick: random.Random) -> None:
        stale = [
            told for told in self.told.values() if told.stale_handles and not told.change_unknown
        ]
        if stale:
            told = pick.choice(stale)
            (outcome,) = self.driver.ack(pick.choice(told.stale_handles))
            assert outcome != DONE, f"{told}: an old handle acked it"

    @rule(pick=st.randoms(use_true_random=False), invisible_ms=st.sampled_from([0, 500, 20_000]))
    def change(self, pick: random.Random, invisible_ms: int) -> None:
        for told in self._some_held(pick, 1):
            reply = self.driver.change(told.handles[-1], invisible_ms)
            if reply.outcome == DONE:
                assert self._now() < told.perhaps_until_ms
                assert not told.acked
                told.change_unknown = told.renewal_unknown = told.returned = False
                told.client = ""
                told.handles.append(reply.handle)
                told.held_until_ms = told.perhaps_until_ms = self._now() + invisible_ms

    @rule(
        pick=st.randoms(use_true_random=False),
        count=st.integers(1, 5),
        counted=st.booleans(),
        delay_ms=st.sampled_from([-1, 0, 500, 20_000]),
        by_runs=st.booleans(),
    )
    def nack(
        self, pick: random.Random, count: int, counted: bool, delay_ms: int, by_runs: bool
    ) -> None:
        """Nobody holds them, they come after the delay, and the attempt grows if it counts."""
        chosen = self._some_held(pick, count)
        kind = link.NACK_KIND_COUNTED if counted else link.NACK_KIND_UNCOUNTED
        handles = [told.handles[-1] for told in chosen]
        nack = self.driver.nack_by_runs if by_runs else self.driver.nack
        outcomes = nack(*handles, kind=kind, delay_ms=delay_ms) if chosen else []
        policy = self.driver.broker.state.catalog_state.groups[GROUP].retry_policy
        for told, outcome in zip(chosen, outcomes, strict=True):
            if outcome == DONE:
                assert self._now() < told.perhaps_until_ms
                assert not told.acked
                wait_ms = policy.delay_ms(told.attempt) if delay_ms < 0 else delay_ms
                told.nack(self._now() + wait_ms, counted=counted)

    @rule(pick=st.randoms(use_true_random=False))
    def nack_for_good(self, pick: random.Random) -> None:
        for told in self._some_held(pick, 1):
            (outcome,) = self.driver.nack(told.handles[-1], kind=link.NACK_KIND_FATAL)
            if outcome == DONE:
                assert self._now() < told.perhaps_until_ms
                assert not told.acked
                told.nacked = told.dead = True
                told.ack_unknown = told.change_unknown = told.renewal_unknown = False
                told.client = ""
                told.held_until_ms = told.perhaps_until_ms = 0

    @rule(to_topic=st.booleans())
    def redrive(self, to_topic: bool) -> None:
        """Each dead letter is sent again, and once."""
        dead = self._dead_letters()
        reply = self.driver.redrive(to_topic=to_topic)
        if self.driver.broker.state.catalog_state.groups[GROUP].fifo and not to_topic:
            assert (reply.sent, reply.in_order) == (0, len(dead))
            return
        assert reply.sent == len(dead)
        for body in dead:
            self._lives_again(self.told[body])

    def _dead_letters(self) -> list[str]:
        """Those that were not sent again, in their order."""
        letters = self.driver.dead_letters(whole=True).letters
        bodies = [letter.body.decode() for letter in letters if not letter.redriven]
        assert len(bodies) == len(set(bodies)), "a dead letter is there twice"
        return bodies

    def _lives_again(self, told: Told) -> None:
        assert told.dead, f"{told} was sent again and had not been given up"
        told.dead = False
        told.attempt, told.attempt_certain = 0, True

    @rule(ms=st.sampled_from([1, 99, 100, 1_000, 30_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @rule()
    def crash(self) -> None:
        self._lose_power()

    def _lose_power(self) -> None:
        self.driver.crash(self.rng)

    @rule(work=st.sampled_from(["send", "pop", "ack", "change", "nack", "revive", "renewal"]))
    def crash_in_the_middle(self, work: str) -> None:
        """The call was appended, or half of it, but never answered."""
        self.driver.hold_disk()
        getattr(self, f"_unanswered_{work}")()
        self._lose_power()

    @precondition(lambda self: any(told.dead for told in self.told.values()))
    @rule(to_topic=st.booleans())
    def crash_in_a_redrive(self, to_topic: bool) -> None:
        """What the marks say after the crash is held against what comes."""
        before = self._dead_letters()
        self.driver.hold_disk()
        which = link.Redrive(group=GROUP, count_max=100)
        request = link.RedriveDeadLetters(which=which, to_topic=to_topic)
        self._unpromised(self.driver.start(redrive_dead_letters=request))
        self._lose_power()
        left = self._dead_letters()
        for body in before:
            if body not in left:
                self._lives_again(self.told[body])

    def _unpromised(self, call: "asyncio.Task[link.Reply]") -> None:
        """While nothing reaches the disk, no answer may rely on it."""
        if not call.done():
            return
        reply = call.result()
        assert not reply.HasField("send"), "a send was answered before it was on disk"
        assert not reply.pop.messages, "a pop was answered before its checkpoint was on disk"
        assert not reply.redrive.sent, "a redrive was answered before it was on disk"
        assert DONE not in reply.nack.outcomes, "a nack was answered before it was on disk"
        assert DONE not in reply.ack.outcomes, "an ack was answered before it was on disk"
        assert reply.change_invisible.outcome != DONE, "a change was answered before it was on disk"

    def _unanswered_send(self) -> None:
        body = self._next_body()
        self.told[body] = Told(body, certain=False)
        visible = self._visible()
        self._unpromised(self.driver.start(**self._send_body(body)))
        assert self._visible() == visible, "a message is visible before it is on disk"

    def _send_body(self, body: str) -> dict[str, Any]:
        return send_body(body)

    def _visible(self) -> int:
        topic = self.driver.call(describe=link.Describe(topic=TOPIC)).describe.topics[0]
        return sum(queue.max_offset for queue in topic.queues)

    def _unanswered_pop(self) -> None:
        self._unpromised(self.driver.start(**pop_body(4, 1_000)))
        self._forget_who_was_popped()

    def _forget_who_was_popped(self) -> None:
        """An unanswered pop took some of them; whether that is remembered, nobody knows."""
        for told in self.told.values():
            told.attempt_certain = False

    def _unanswered_ack(self) -> None:
        for told in self.told.values():
            if told.has_handle and not told.acked:
                request = ack_body([told.handles[-1]])
                self._unpromised(self.driver.start(**request))
                told.ack_unknown = True
                return

    def _unanswered_change(self) -> None:
        for told in self.told.values():
            if told.has_handle and not told.acked and self._now() < told.held_until_ms:
                request = change_body(told.handles[-1], 50_000)
                self._unpromised(self.driver.start(**request))
                told.change_unknown = True
                return

    def _unanswered_nack(self) -> None:
        for told in self.told.values():
            if told.has_handle and not told.acked and self._now() < told.held_until_ms:
                kind = link.NACK_KIND_COUNTED
                self._unpromised(self.driver.start(**nack_body(told.handles[-1:], kind, 50_000)))
                told.change_unknown = True
                return

    def _unanswered_renewal(self) -> None:
        """It may be remembered or not; nobody was promised anything."""
        self._unpromised(self.driver.start(alive=link.Alive(client_ids=CLIENTS)))
        for told in self._renewable(CLIENTS):
            told.perhaps_renewed(self._now())
            told.renewal_unknown = True

    def _unanswered_revive(self) -> None:
        self.driver.clock.advance(1_000)
        self.driver.loop.create_task(self.driver.broker.revive.revive_due())
        self.driver.start(describe=link.Describe())

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def counts_agree(self) -> None:
        table = self.driver.broker.state.lease_state.table
        assert table.live_count == sum(len(queue.leases) for queue in table.queues.values())
        for queue in table.queues.values():
            assert queue.committed <= queue.position
            assert all(offset < queue.position for offset in queue.leases)

    @precondition(lambda self: hasattr(self, "driver"))
    @invariant()
    def clients_hold_live_leases(self) -> None:
        table = self.driver.broker.state.lease_state.table
        renewed = [
            (queue.key, offset, lease.grant)
            for queue in table.queues.values()
            for offset, lease in queue.leases.items()
            if lease.grant.client_id
        ]
        known = [
            (held.key, offset, held.grant)
            for client in {grant.client_id for _, _, grant in renewed}
            for held in table.renewals.of(client)
            for offset in held.offsets
        ]
        assert len(known) == len(renewed)
        assert set(known) == set(renewed)
        assert len(table.renewals) == len({grant.client_id for _, _, grant in renewed})

    def _received(self, messages: list[Popped]) -> None:
        type(self).delivered += len(messages)
        for message in messages:
            body = message.body.decode()
            told = self.told[body]
            assert not told.acked, f"{told} came after its ack"
            assert not told.dead, f"{told} is a dead letter"
            assert self._now() >= told.held_until_ms, f"{told} is held by somebody else"
            assert b"colour\x01blue\x02" in message.properties
            if told.attempt_certain:
                grown = message.delivery_attempt - told.attempt
                assert grown == 1 or (grown == 0 and told.returned), told
            told.attempt = message.delivery_attempt
            told.attempt_certain = True
            told.certain = True
            told.ack_unknown = told.change_unknown = False
            told.handles.append(message.handle)
            told.nacked = False
            told.popped_ms = message.receipt.pop_time_ms
            told.held_until_ms = told.popped_ms + message.receipt.invisible_ms
            told.perhaps_until_ms = told.held_until_ms
            told.client = ""
            told.returned = told.renewal_unknown = False

    def _drain(self) -> None:
        """Whatever was promised comes, once time passes."""
        for _ in range(200):
            self.driver.advance(60_000)
            messages = self.driver.pop(32, 1_000)
            self._received(messages)
            if messages:
                for message in messages:
                    self._acked(
                        self.told[message.body.decode()], self.driver.ack(message.handle)[0]
                    )
            elif not self.driver.broker.state.lease_state.table.live_count:
                break
        missing = [
            told
            for told in self.told.values()
            if told.certain and not told.acked and not told.ack_unknown and not told.dead
        ]
        assert not missing, f"lost: {missing}"
        dead = {told.body for told in self.told.values() if told.dead}
        assert dead == set(self._dead_letters())

    def _next_body(self) -> str:
        self.sent += 1
        return f"m{self.sent}"

    def _now(self) -> int:
        return self.driver.clock.now_ms()
