"""Topics and groups, their settings, and who has to be told of a change."""
