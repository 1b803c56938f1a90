"""Pure: which replicas are in sync, up to where the log is committed, who may become primary."""
