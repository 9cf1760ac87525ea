"""Remembers: the one writer, its journal, recovery and passes."""
