"""The benchmarks at the edges: very many polls, topics and messages, each on a fresh PopMQ.

`python -m extremes NAME` with bench/ on the path; see bench/README.md.
"""
