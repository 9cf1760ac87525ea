"""The programs of HTCondor on the jobs of this cluster.

A job is a cluster of HTCondor, a task or an instance of one is a process, counted from 0 in each job.
"""
