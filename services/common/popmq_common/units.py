"""Numbers that must not be mixed up, and sizes by name."""

from typing import Final, NewType

LogOffset = NewType("LogOffset", int)
"""A byte position in the CommitLog's address space."""

QueueOffset = NewType("QueueOffset", int)
"""A message number inside one queue, from 0."""

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB
