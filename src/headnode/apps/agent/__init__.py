"""The agent: one for each node; tells the head what runs here and the shepherds what to run."""
