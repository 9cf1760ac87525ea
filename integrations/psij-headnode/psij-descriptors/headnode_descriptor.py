"""How PSI/J finds the executor of Headnode: `JobExecutor.get_instance("headnode")`."""

from packaging.version import Version
from psij.descriptor import Descriptor

__PSI_J_EXECUTORS__ = [
    Descriptor(
        name="headnode",
        nice_name="Headnode",
        version=Version("0.1.0"),
        cls="psij_headnode.executor.HeadnodeJobExecutor",
    )
]
