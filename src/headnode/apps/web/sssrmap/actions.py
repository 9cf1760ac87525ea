"""What can be done with which objects by SSSRMAP."""

from collections.abc import Mapping
from typing import Final

from headnode.apps.web.sssrmap import cluster_objects, job_actions, job_queries
from headnode.apps.web.sssrmap.queries import Collector, join_of, query_of
from headnode.apps.web.sssrmap.service import Actions

COLLECTORS: Final[Mapping[str, Collector]] = {
    "Job": job_queries.collect_jobs,
    "JobGroup": job_queries.collect_groups,
    "Node": cluster_objects.collect_nodes,
    "Queue": cluster_objects.collect_queues,
    "Reservation": cluster_objects.collect_reservations,
    "User": job_queries.collect_users,
    "Project": job_queries.collect_projects,
    "Account": job_queries.collect_projects,
}
JOIN: Final = join_of(COLLECTORS)
ACTIONS: Final[Actions] = {
    "Job": {
        "Query": query_of(COLLECTORS["Job"]),
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
        "Query": query_of(COLLECTORS["JobGroup"]),
        "Submit": job_actions.submit,
        "Create": job_actions.create,
        "Cancel": job_actions.cancel_group,
        "Delete": job_actions.cancel_group,
    },
    "Node": {"Query": query_of(COLLECTORS["Node"]), "Modify": cluster_objects.modify_node},
    "Queue": {"Query": query_of(COLLECTORS["Queue"])},
    "Reservation": {
        "Query": query_of(COLLECTORS["Reservation"]),
        "Create": cluster_objects.create_reservation,
        "Cancel": cluster_objects.cancel_reservation,
        "Delete": cluster_objects.cancel_reservation,
    },
    "User": {"Query": query_of(COLLECTORS["User"])},
    "Project": {"Query": query_of(COLLECTORS["Project"])},
    "Account": {"Query": query_of(COLLECTORS["Account"])},
}
