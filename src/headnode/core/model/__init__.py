"""Nouns: quantities, jobs, tasks, nodes, users, errors."""
