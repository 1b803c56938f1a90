"""Any order of sends, pops, acks, changes, time, restarts and crashes keeps the promises.

The promises stand in `harness/broker_machine.py`.
"""

from harness.broker_machine import BrokerMachine
from hypothesis import HealthCheck, Phase, settings

# No shrinking: it takes minutes, and the transcript of a failure is short enough to read.
BrokerMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
TestBrokerMachine = BrokerMachine.TestCase
