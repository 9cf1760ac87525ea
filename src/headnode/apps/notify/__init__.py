"""Sends notices for the head: a process of its own, so that no slow server makes the head slow."""
