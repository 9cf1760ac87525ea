"""The state of the cluster: events, commands, and what follows from them."""
