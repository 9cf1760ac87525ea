"""SSSRMAP messages: what a scheduler, a queue manager and an allocation manager say to each other.

Source:  SSSRMAP Message Format 3.0.4; SSSRMAP Wire Protocol 3.0.3.
"""
