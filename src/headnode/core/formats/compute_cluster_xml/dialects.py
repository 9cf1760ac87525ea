"""The three dialects of Compute Cluster job files, and how to tell which one a file speaks.

Source: CCS, job.xsd and task.xsd; HPC Pack job files of 2008 and of 2008 R2 and later.
"""

import msgspec

CCS, HPC_2008, HPC = "ccs", "hpcpack-2008", "hpcpack"


class Dialect(msgspec.Struct, frozen=True):
    """A dialect.  The defaults are those of what a file does not say."""

    name: str
    title: str
    namespace: str
    version: str
    exclusive: bool  # default of IsExclusive of the job
    rerunnable: bool  # default of IsRerunnable of its tasks


DIALECTS = {
    CCS: Dialect(
        CCS, "Compute Cluster Server 2003", "http://www.microsoft.com/ComputeCluster/", "", True, False
    ),
    HPC_2008: Dialect(
        HPC_2008,
        "HPC Server 2008",
        "http://schemas.microsoft.com/HPCS2008/scheduler/",
        "2.000",
        False,
        True,
    ),
    HPC: Dialect(
        HPC,
        "HPC Pack 2008 R2 and later",
        "http://schemas.microsoft.com/HPCS2008R2/scheduler/",
        "3.000",
        False,
        True,
    ),
}
"""The dialects by the names that jobs and commands give them."""

BY_NAMESPACE = {dialect.namespace: dialect for dialect in DIALECTS.values()}
