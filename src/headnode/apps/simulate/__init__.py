"""Simulation: what another policy would have done to the jobs of the past."""
