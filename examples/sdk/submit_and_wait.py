"""Submit a sweep, show its progress while it runs, and print the output of the instances that failed."""

from headnode.sdk import HeadnodeClient

with HeadnodeClient() as client:
    job = client.submit(
        "test * -ne 3 || { echo number * is wrong; exit 1; }", sweep=range(1, 6), name="numbers"
    )
    for now in job.watch():
        counts = now.tasks
        print(f"job {job.id}: {counts.finished} finished, {counts.running} running, {counts.failed} failed")
    for task in job.tasks(states=["Failed"], expand=1):
        print(f"instance {task.instance}: {job.output(1, task.instance)}", end="")
