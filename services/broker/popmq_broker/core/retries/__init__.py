"""Another attempt: retry copies, dead letters sent again, deliveries that are counted."""
