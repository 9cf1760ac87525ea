"""Runs the commands of other schedulers, and keeps the attempts that were handed over to them."""
