"""The command line: `hn` and its long twin `headnode`.  The frequent commands import next to nothing."""
