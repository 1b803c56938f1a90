"""promtool judges rules; the folder's modules import each other as `monitoring.…`."""
