"""SSS job objects as XML: read, repaired, written."""
