"""The process beside the head that hands jobs over to other schedulers."""
