"""Touches the world: disks, processes, sockets, clocks, identities."""
