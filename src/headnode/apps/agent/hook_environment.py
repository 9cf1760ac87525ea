"""What prologs, epilogs and filters of a node find in their environment.

Users choose some of these values: programs that run as root must quote them.
"""

import socket

from headnode.adapters.identity.base_environment import base_environment
from headnode.adapters.nodes import messages as m
from headnode.core.launching.environment import node_list
from headnode.core.launching.processors import machine_numbers
from headnode.core.lifecycle.records import decode_spec
from headnode.core.model.node import NodeFacts

LONGEST = 4096  # characters of a value that a user has chosen


def hook_environment(here: m.OpenJob, facts: NodeFacts, head: m.Welcome) -> dict[str, str]:
    """Return the variables for a job, as it is on this node: `here` has the numbers of its user here."""
    spec, held = decode_spec(here.spec), dict(here.allocation).get(facts.name, ())
    counts = {node: len(numbers) for node, numbers in here.allocation}
    user = base_environment(here.uid)
    directory = next((task.work_directory for task in spec.tasks), "") or user["HOME"]
    return {
        "HEADNODE_JOB": str(here.job),
        "HEADNODE_NODE": facts.name,
        "HEADNODE_USER": user["USER"],
        "HEADNODE_UID": str(here.uid),
        "HEADNODE_GID": str(here.gid),
        "HEADNODE_PROCESSORS": str(len(held)),
        "HEADNODE_MEMORY": str((spec.process_memory or 0) * len(held)),
        "HEADNODE_TEMPLATE": _plain(spec.template or "Default"),
        "HEADNODE_PROJECT": _plain(spec.project),
        "HEADNODE_WORK_DIRECTORY": _plain(directory),
        "CCP_CLUSTER_NAME": head.cluster,
        "CCP_SCHEDULER": head.host or socket.gethostname(),
        "CCP_JOBID": str(here.job),
        "CCP_JOBNAME": _plain(spec.name),
        "CCP_JOBTEMPLATE": _plain(spec.template or "Default"),
        "CCP_JOBTYPE": "Batch",
        "CCP_NODES": node_list(here.allocation, counts),
        "CCP_NODES_CORES": node_list(here.allocation, counts),
        "CCP_NUMCPUS": str(sum(counts.values())),
        "CCP_COREIDS": " ".join(map(str, machine_numbers(held, facts.machine_processors))),
        "CCP_WORKDIR": _plain(directory),
    }


def _plain(text: str) -> str:
    """Return a text of a user as a variable can hold it: no job may keep a hook from running."""
    return text.replace("\0", "")[:LONGEST]
