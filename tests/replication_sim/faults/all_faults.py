"""All of them, by name."""

from replication_sim.faults import of_disks, of_epochs, of_sends, of_sets
from replication_sim.faults.planting import FAULTS

__all__ = ["FAULTS", "of_disks", "of_epochs", "of_sends", "of_sets"]
