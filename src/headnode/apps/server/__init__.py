"""The head: chooses journal, clock, policies and links, and serves commands on a local socket."""
