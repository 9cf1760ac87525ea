"""Job templates as HPC Pack imports and exports them."""

from headnode.core.formats.job_template_xml.reader import read_template
from headnode.core.formats.job_template_xml.writer import write_template

__all__ = ["read_template", "write_template"]
