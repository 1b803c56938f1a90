"""The register of a replicated broker: who is primary, which replicas are in sync, who is alive.

Here belong the interface (`register.py`) and what keeps a register elsewhere: etcd, or a folder of
this machine. What the record says, and who may change it, is decided by others.
"""
