"""What other packages offer, found by their entry points."""
