"""The wire between the head, its nodes and its clients: frames, messages, TLS."""
