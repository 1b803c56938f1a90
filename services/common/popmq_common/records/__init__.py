"""What services say of a message: its record in the log, properties, names, receipt handles."""
