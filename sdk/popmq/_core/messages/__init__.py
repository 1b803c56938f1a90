"""Messages between applications and the wire, without I/O."""
