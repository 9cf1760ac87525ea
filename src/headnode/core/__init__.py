"""Thinks: the model, its life, its schedule and its file formats.  No clock, file, socket, thread or randomness."""
