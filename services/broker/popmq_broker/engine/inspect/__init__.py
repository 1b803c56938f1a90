"""Answers to operators: explain, find, figures, inspection, export, settings."""
