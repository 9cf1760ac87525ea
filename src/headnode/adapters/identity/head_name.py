"""By which words head and others know each other in a TLS handshake.  Imports nothing: clients hurry."""

HEAD_NAME = "head.headnode.invalid"
"""The name in the head's certificate: all ask for it, whatever address they dial."""
CLIENT = "headnode-client"
"""What a client of another machine asks for (ALPN); who asks for nothing is a node."""
TASKS = "headnode-tasks"
"""What a node asks for that passes on what its tasks ask (ALPN)."""
