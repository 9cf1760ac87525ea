"""How clients reach the head: the Unix socket, TLS from other machines, tasks by way of their node."""
