"""How a node runs tasks: shepherds, their factory, control groups."""
