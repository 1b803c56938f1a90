"""Commands about messages: send, receive, tail, find, explain, dlq, transaction, bench, run."""
