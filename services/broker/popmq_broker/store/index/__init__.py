"""The key index: RocketMQ's index files, written, opened and repaired."""
