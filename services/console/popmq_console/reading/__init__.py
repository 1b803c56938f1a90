"""From calls to what pages show: calls of the admin service, and rows, reasons, times, decided
without asking anybody."""
