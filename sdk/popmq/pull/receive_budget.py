"""How much a consumer holds at a time: messages, and bytes of their bodies."""

import asyncio

from popmq.message import ReceivedMessage


class ReceiveBudget:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        if messages_max < 1 or bytes_max < 1:
            raise ValueError(f"room for {messages_max} messages of {bytes_max} bytes: 1 at least")
        self.messages = self.bytes = 0
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._freed = asyncio.Event()

    async def available(self) -> int:
        """Wait until there is room; for how many messages. What is then asked for may take more
        bytes than there is room for: it is not known before it comes."""
        while self.messages >= self._messages_max or self.bytes >= self._bytes_max:
            self._freed.clear()
            await self._freed.wait()
        return self._messages_max - self.messages

    def take(self, message: ReceivedMessage) -> None:
        self.messages += 1
        self.bytes += len(message.body)

    def give(self, message: ReceivedMessage) -> None:
        self.messages -= 1
        self.bytes -= len(message.body)
        self._freed.set()
