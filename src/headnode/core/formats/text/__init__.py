"""The texts that job languages are written in: decoded safely, with the position of everything in them."""
