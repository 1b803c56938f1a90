"""What is done to a directory's files by commands: copied, checked, dumped, cut, handed over."""
