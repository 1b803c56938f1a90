"""What checks build on: rows spread over tasks, the shape of a finding, queues as they lie."""
