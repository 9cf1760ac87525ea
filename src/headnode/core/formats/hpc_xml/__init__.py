"""Job files of Compute Cluster Server 2003, HPC Server 2008 and HPC Pack, read and written.

Source: CCS, job.xsd, task.xsd and "Content format"; HPC Pack job files."""

from headnode.core.formats.hpc_xml.attributes import CCS, DIALECTS, HPC, HPC_2008
from headnode.core.formats.hpc_xml.reading import place_of, read_job, validate
from headnode.core.formats.hpc_xml.writing import write_job

__all__ = [
    "CCS",
    "DIALECTS",
    "HPC",
    "HPC_2008",
    "place_of",
    "read_job",
    "validate",
    "write_job",
]
