"""Runs PopMQ and Apache RocketMQ in turn on the same cores and compares them.

`python -m compare --help`, with bench/ on the path; `make bench` does everything.
"""
