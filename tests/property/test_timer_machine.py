"""Delayed messages over crashes at any moment; the promises stand in `harness/timer_machine.py`."""

from harness.timer_machine import TimerMachine
from hypothesis import HealthCheck, Phase, settings

# No shrinking: it takes minutes, and the transcript of a failure is short enough to read.
TimerMachine.TestCase.settings = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=min(25, settings.default.max_examples)
    if settings.default and settings.default.derandomize
    else 1_500,
    stateful_step_count=30,
)
TestTimerMachine = TimerMachine.TestCase
