"""A cluster that goes from one version of PopMQ to another, and back, under load."""
