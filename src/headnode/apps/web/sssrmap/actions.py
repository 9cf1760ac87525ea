"""What can be done with which objects by SSSRMAP."""

from typing import Final

from headnode.apps.web.sssrmap import cluster_objects, job_actions, job_queries, named_by_jobs
from headnode.apps.web.sssrmap.service import Actions

ACTIONS: Final[Actions] = {
    "Job": {
        "Query": job_queries.query_jobs,
        "Submit": job_actions.submit,
        "Create": job_actions.create,
        "Modify": job_actions.modify,
        "Cancel": job_actions.cancel,
        "Delete": job_actions.cancel,
        "Start": job_actions.start,
        "Requeue": job_actions.requeue,
        "Suspend": job_actions.suspend,
        "Resume": job_actions.resume,
        "Checkpoint": job_actions.checkpoint,
        "Notify": job_actions.notify,
    },
    "JobGroup": {
        "Query": named_by_jobs.query_groups,
        "Submit": job_actions.submit,
        "Create": job_actions.create,
        "Cancel": job_actions.cancel_group,
        "Delete": job_actions.cancel_group,
    },
    "Node": {"Query": cluster_objects.query_nodes, "Modify": cluster_objects.modify_node},
    "Queue": {"Query": cluster_objects.query_queues},
    "Reservation": {
        "Query": cluster_objects.query_reservations,
        "Create": cluster_objects.create_reservation,
        "Cancel": cluster_objects.cancel_reservation,
        "Delete": cluster_objects.cancel_reservation,
    },
    "User": {"Query": named_by_jobs.query_users},
    "Project": {"Query": named_by_jobs.query_projects},
    "Account": {"Query": named_by_jobs.query_projects},
}
