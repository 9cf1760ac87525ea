"""The first minute with Headnode: a cluster on this machine, three jobs, their results."""
