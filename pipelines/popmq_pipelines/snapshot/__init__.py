"""Snapshots: files, columns, manifest, where they lie."""
