"""The programs of Slurm, PBS and Grid Engine for this cluster: `hn` under their names.

A poll loop starts them all the time, so they import what they need and nothing else: no `re`, no `datetime`.
"""
