"""Recipes: an allocation and a task become argv, environment and files."""
