"""Talks to a head of this machine.  Imports next to nothing: a submit must feel instant."""
