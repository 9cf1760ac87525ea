"""Functions as tasks: `HeadnodeExecutor` in the submitting process, `worker` in the tasks."""
