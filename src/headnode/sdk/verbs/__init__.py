"""The verbs of the local protocol as methods, the same for both faces of the SDK."""
