"""Another attempt: retry copies, dead letters sent again, hand-outs that are counted."""
