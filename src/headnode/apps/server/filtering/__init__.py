"""The site's filters: the document each gets, the order of their calls, and what becomes of their answers."""
