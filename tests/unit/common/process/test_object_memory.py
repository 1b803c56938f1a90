"""Small objects from the C library while a flood lasts: nothing is lost, and all comes back."""

import os
import subprocess
import sys

import pytest

CHURN = """
import gc, random, sys, threading
from popmq_common.process.object_memory import ObjectMemory

memory, made, seed = ObjectMemory(), {}, random.Random(int(sys.argv[1]))

def other_thread():
    for i in range(20_000):
        kept = [str(i), {i: (i,)}, float(i)]
        kept.append(kept)

threads = [threading.Thread(target=other_thread) for _ in range(2)]
for thread in threads:
    thread.start()
for i in range(60_000):
    if i % 997 == 0:
        memory.take_from_c()
        assert memory.is_of_c == (sys.argv[2] == "usual")
    if i % 997 == 500:
        memory.take_from_python()
        assert not memory.is_of_c
    key = seed.randrange(5_000)
    there = made.setdefault(key, [])
    there.append((i, str(i) * seed.randrange(9), {i: i}, bytearray(i % 700)))
    if len(there) > 12:
        assert [one[0] for one in there] == sorted(one[0] for one in there)
        assert all(one[1][: len(str(one[0]))] in ("", str(one[0])) for one in there)
        del made[key]
for thread in threads:
    thread.join()
memory.take_from_c()
del made
gc.collect()
print("whole")
"""


@pytest.mark.parametrize(
    ("which", "environment"),
    [("usual", {}), ("other", {"PYTHONMALLOC": "malloc"}), ("other", {"PYTHONMALLOC": "debug"})],
)
def test_objects_live_through_every_change(which: str, environment: dict[str, str]) -> None:
    """Made before, freed after, resized in between, in three threads, also at the very end."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONMALLOC"}
    done = subprocess.run(
        [sys.executable, "-c", CHURN, str(os.getpid()), which],
        env={**environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), f"{done.args[3:]} {done.stderr}"
