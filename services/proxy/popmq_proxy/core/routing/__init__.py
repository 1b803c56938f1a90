"""Which queue of which broker: routes, turns, allocation, where groups start."""
