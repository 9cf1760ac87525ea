"""Notices that wait on the disk, and their delivery."""
