"""CPU time per message of the parts, before and after a change, in turns."""
