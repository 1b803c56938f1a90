"""Delayed messages: the wheel, its snapshot, the 18 delay levels, RocketMQ's formats."""
