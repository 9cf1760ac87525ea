"""Backups of a head's state: written while the head runs, and checked by replaying before they count."""
