"""Screens of the cluster as a whole: its services, its users and policies, its audits."""
