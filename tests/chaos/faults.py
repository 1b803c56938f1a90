"""What is done to the cluster, one after the other. Each takes what it did back before it ends."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.damaging import lose_end

from chaos.cluster import RESERVE_BYTES, Chaos, topics
from chaos.forwarder import Network

HOLD_S = 6.0
"""How long a fault lasts, if it lasts."""
SHORT_S = 2.0
SLOW_S = 0.3
"""Delay of each packet, each way."""
LOST = 20
"""Messages of one topic: more than clients have under way, so that some were confirmed."""
LOST_TOPIC = topics("sdk")[0]
"""Its clients count what they send."""


@dataclass(frozen=True)
class Fault:
    name: str
    title: str
    run: Callable[[Chaos], None]
    gentle: bool = False
    """What operators do on purpose: our SDK sees no error."""


def kill_broker(chaos: Chaos) -> None:
    chaos.kill("broker-b")
    time.sleep(SHORT_S)
    chaos.start("broker-b")


def stop_broker(chaos: Chaos) -> None:
    chaos.stop("broker-b")
    time.sleep(SHORT_S)
    chaos.start("broker-b")


def broker_long_gone(chaos: Chaos) -> None:
    """Longer than its registration lives."""
    chaos.kill("broker-a")
    time.sleep(3 * HOLD_S)
    chaos.start("broker-a")


def kill_proxy(chaos: Chaos) -> None:
    chaos.kill("proxy-1")
    time.sleep(SHORT_S)
    chaos.start("proxy-1")


def stop_proxy(chaos: Chaos) -> None:
    chaos.stop("proxy-2")
    time.sleep(SHORT_S)
    chaos.start("proxy-2")


def kill_nameserver(chaos: Chaos) -> None:
    chaos.kill("nameserver-1")
    time.sleep(HOLD_S)
    chaos.start("nameserver-1")


def empty_nameservers(chaos: Chaos) -> None:
    """Both gone, and back without a memory, while nobody has registered yet."""
    for name in ("nameserver-1", "nameserver-2"):
        chaos.kill(name)
    time.sleep(HOLD_S)
    for name in ("nameserver-1", "nameserver-2"):
        chaos.start(name)


def pause_broker(chaos: Chaos) -> None:
    chaos.pause("broker-b")
    time.sleep(2 * HOLD_S)
    chaos.resume("broker-b")


def pause_proxy(chaos: Chaos) -> None:
    chaos.pause("proxy-1")
    time.sleep(2 * HOLD_S)
    chaos.resume("proxy-1")


def cut_network(chaos: Chaos) -> None:
    """One proxy and one broker do not hear of each other; no connection breaks."""
    chaos.networks["broker-b"].become(Network(cut_off=frozenset({chaos.pid("proxy-1")})))
    time.sleep(2 * HOLD_S)
    chaos.networks["broker-b"].become(Network())


def slow_network(chaos: Chaos) -> None:
    chaos.networks["broker-b"].become(Network(delay_s=SLOW_S))
    time.sleep(HOLD_S)
    chaos.networks["broker-b"].become(Network())


def fill_disk(chaos: Chaos) -> None:
    chaos.disk.fill(RESERVE_BYTES // 2)
    time.sleep(HOLD_S)
    chaos.disk.make_room()


def add_broker(chaos: Chaos) -> None:
    chaos.add_broker("broker-c")
    chaos.make_topics()
    time.sleep(HOLD_S)


def make_read_only(chaos: Chaos) -> None:
    chaos.permit("broker-a", "read")
    time.sleep(HOLD_S)
    chaos.permit("broker-a", "read-write")


def roll_proxies(chaos: Chaos) -> None:
    for name in ("proxy-1", "proxy-2"):
        chaos.stop(name)
        chaos.start(name)
        time.sleep(SHORT_S)


def roll_brokers(chaos: Chaos) -> None:
    for name in ("broker-a", "broker-b"):
        chaos.stop(name)
        chaos.start(name)
        time.sleep(SHORT_S)


def lose_end_of_log(chaos: Chaos) -> None:
    """Of what nobody is told, and which only the audit can find."""
    chaos.kill("broker-b")
    lose_end(chaos.data_dirs["broker-b"], LOST_TOPIC, LOST)
    chaos.start("broker-b")


FAULTS = [
    # First: a full disk costs a broker the oldest file of its log, and with it copies of messages
    # that the judge counts at the end.
    Fault("full-disk", "the disk of a broker is full", fill_disk),
    Fault("kill-broker", "kill -9 of a broker, started again", kill_broker),
    Fault("stop-broker", "SIGTERM of a broker, started again", stop_broker, gentle=True),
    Fault("kill-proxy", "kill -9 of a proxy, started again", kill_proxy),
    Fault("stop-proxy", "SIGTERM of a proxy, started again", stop_proxy, gentle=True),
    Fault("kill-nameserver", "kill -9 of a nameserver", kill_nameserver, gentle=True),
    Fault("empty-nameservers", "both nameservers killed, back empty", empty_nameservers, True),
    Fault("pause-broker", "a broker paused for 12 s (SIGSTOP)", pause_broker),
    Fault("pause-proxy", "a proxy paused for 12 s (SIGSTOP)", pause_proxy),
    Fault("cut-network", "packets lost between one proxy and one broker, 12 s", cut_network),
    Fault("slow-network", "each packet to and from a broker 0.3 s late", slow_network, gentle=True),
    Fault("add-broker", "a broker added, topics extended to it", add_broker, gentle=True),
    Fault("read-only", "a broker made read only, and back", make_read_only),
    Fault("roll-proxies", "rolling restart of the proxies", roll_proxies, gentle=True),
    Fault("roll-brokers", "rolling restart of the brokers", roll_brokers, gentle=True),
    Fault("broker-gone", "a broker away for 18 s, longer than its registration", broker_long_gone),
]
LOSS = Fault("lost-log", "kill -9 of a broker, whose log then has lost its end", lose_end_of_log)
