"""Placing the parts of a gang beside each other."""
