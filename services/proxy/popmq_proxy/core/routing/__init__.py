"""Which queue of which broker: routes, round robin, allocation, where groups start."""
