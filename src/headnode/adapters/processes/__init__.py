"""How a node runs tasks: shepherds, their factory, cgroups."""
