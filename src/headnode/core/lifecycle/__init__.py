"""Time: states, arrows, events, commands, and the one function that may say no."""
