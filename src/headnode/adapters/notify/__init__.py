"""Telling people: notices that wait on the disk, and the ways to bring them."""
