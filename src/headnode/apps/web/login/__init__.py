"""The ways to log in at the gateway."""
