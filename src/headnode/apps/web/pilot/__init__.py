"""The grid service: jobs in the grid description, with the paths and the states of the Pilot service."""
