"""What a crash leaves of what was not synced, where a test must not leave it to chance."""

import random


class KeepsNothing(random.Random):
    def randint(self, a: int, b: int) -> int:
        return a


class KeepsAll(random.Random):
    def randint(self, a: int, b: int) -> int:
        return b
