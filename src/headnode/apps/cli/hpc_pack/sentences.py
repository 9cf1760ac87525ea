"""Sentences in which the programs of HPC Pack and those of CCS differ.

Source:  scripts that read them: CCS says ``Job queued, ID: 12``, HPC Pack ``Created job, ID: 12``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.client.client import Client

PARAMETER = "CommandSentences"
CREATED = {"HPCPack": "Created job", "CCS": "Job queued"}


def sentences(client: "Client") -> str:
    """Return whose sentences this cluster's programs print: ``HPCPack`` or ``CCS``."""
    params = client.ask("params")["params"]
    return next((str(param["value"]) for param in params if param["name"] == PARAMETER), "HPCPack")
