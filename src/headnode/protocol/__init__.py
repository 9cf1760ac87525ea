"""Requests and answers of the local protocol as types: for the head, and for all programs that ask it."""
