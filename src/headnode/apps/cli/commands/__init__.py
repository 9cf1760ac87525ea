"""The commands of `hn` by noun: options, and functions from a client and an output to an exit status."""
