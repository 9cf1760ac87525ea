"""A standby head: it follows the events of a head on another machine, and takes over in one command."""
