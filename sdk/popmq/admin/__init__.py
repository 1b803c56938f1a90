"""Topics, groups and stored messages, for operators' programs."""
