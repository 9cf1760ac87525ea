"""The report of the policy lab: one page that opens anywhere, without a network."""
