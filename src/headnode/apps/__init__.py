"""Chooses adapters and starts: server, agent, command line."""
