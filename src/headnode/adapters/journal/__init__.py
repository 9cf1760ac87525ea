"""Where events are kept: in memory, or in SQLite; and backups of it."""
