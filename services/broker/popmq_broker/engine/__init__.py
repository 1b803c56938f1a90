"""What the broker does, one file per verb: decide, append, apply, await durable, answer."""
