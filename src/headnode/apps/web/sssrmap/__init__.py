"""The SSSRMAP listener: a process of its own, by which Maui and other SSS components use the cluster."""
