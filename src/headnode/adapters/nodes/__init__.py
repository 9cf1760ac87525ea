"""How the head and its agents talk."""
