"""When a waiting job will start: run times of the past, the plan replayed over them, and its scores."""
