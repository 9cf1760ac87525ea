"""The head: selects journal, clock, policies and links, and serves requests of clients and nodes."""
