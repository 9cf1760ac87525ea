"""The console: pages for people, rendered here, with the same data as JSON beside each address."""
