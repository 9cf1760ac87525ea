"""The command line: `hn` and its long twin `headnode`.  The frequent verbs import next to nothing."""
