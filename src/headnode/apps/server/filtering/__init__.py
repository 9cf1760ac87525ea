"""The site's filters at work: which paper each gets, in which order they are called, and who is told."""
