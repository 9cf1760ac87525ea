"""When a waiting job will start: run times learned from the past, the plan replayed over them, and how far
to believe it.
"""
