"""Headnode: a workload manager for compute clusters."""

__version__ = "0.3.0"
