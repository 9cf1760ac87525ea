"""The user at the other end of a socket, and the audit log."""
