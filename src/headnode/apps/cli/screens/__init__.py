"""What people see of a job, a task, a node: objects of the local protocol in, texts out.  No I/O."""
