"""Choice: what should start now, where, and why everything else waits."""
