"""The verbs of the local protocol, by noun, with their requests, rights and answers."""
