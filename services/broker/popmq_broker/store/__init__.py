"""The files of a broker. The only code that touches them."""
