"""Balanced mode: all jobs start with their minimum, and what is left is shared out among those that run."""
