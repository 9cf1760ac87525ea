"""The report of a simulation: one page that opens anywhere, without a network."""
