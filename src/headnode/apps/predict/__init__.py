"""Predicts starts for the head: a process of its own, so that the head goes on meanwhile."""
