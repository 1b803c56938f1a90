"""How much load each client makes: enough to meet every fault, little for two cores."""

GAP_S = 0.05
"""Between two sends of the free line."""
FIFO_GAP_S = 0.1
"""Between two sends of a message group."""
FIFO_LINES = 2
INVISIBLE_S = 30
"""A lease; what was received and not acked is redelivered after it."""
POLL_S = 2
"""How long a receive waits."""
RECEIVE_MAX = 16
PAUSE_S = 0.1
"""After a receive that failed."""
