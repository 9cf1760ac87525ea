"""Who is on the other end of a socket, and the log of what they did."""
