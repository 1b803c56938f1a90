"""What waits for its time: parked messages in a wheel, and how far each delay level has come."""

from popmq_broker.core.timers.timer_wheel import Wheel


class TimerTable:
    def __init__(self) -> None:
        self.wheel = Wheel()
        self.level_offsets: dict[int, int] = {}
        """By level: the next to deliver."""
        self.loaded_to = 0
        """All that was parked before this offset is in the wheel, or done with."""
        self.is_loaded = False
        """It has all that the log holds."""
