"""What all commands use: output, parameters, connection, completion."""
