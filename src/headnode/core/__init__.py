"""Thinks: the model, its life, its schedule, file formats.  No clock, file, socket, thread or chance."""
