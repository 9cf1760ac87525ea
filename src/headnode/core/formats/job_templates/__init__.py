"""Job templates as TOML and JSON; as XML of HPC Pack in `headnode.core.formats.job_template_xml`."""

from headnode.core.formats.job_templates.native import read_template, write_template

__all__ = ["read_template", "write_template"]
