"""Print why each of your queued jobs waits, and what would let it start sooner."""

from headnode.sdk import HeadnodeClient

with HeadnodeClient() as client:
    for job in client.jobs(owner="", states=["Queued"]):
        explanation = client.explain(job.id)
        print(f"job {job.id} {job.name}:")
        for reason in explanation.reasons:
            print(f"  waits: {reason.text}")
        for change in explanation.changes:
            print(f"  helps: {change.text}")
