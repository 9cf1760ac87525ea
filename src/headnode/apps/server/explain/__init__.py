"""Why jobs wait, what would let them start, and what would become of a job that is not submitted."""
