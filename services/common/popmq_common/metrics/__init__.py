"""Metrics: their names and help, histograms, the page /metrics."""
