"""Policies over a pool of equal processors, where only counters matter, and the replay of past jobs."""
