"""Transfers of files between nodes and storage, in processes of their own that run as the user."""
