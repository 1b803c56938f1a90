"""`popmq standalone --cores N`: throughput and CPU time by N, each process held to a part of a
core, so that a small machine stands for a large one."""
