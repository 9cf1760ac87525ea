"""One file for each command: its arguments, and a function from a client and an output to an exit status."""
