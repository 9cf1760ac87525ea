"""Standby heads, as their head sees them: a thread sends each of them the events."""
