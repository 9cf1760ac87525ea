"""Who is on the other end of a socket."""
