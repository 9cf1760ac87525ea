"""Batch scripts of Slurm, PBS, Grid Engine and LSF as job files.

`lines` has the rules of each scheduler and finds the options, `slurm_options`, `qsub_options` and
`lsf_options` are the tables of them, `draft` collects what they ask for, and `reading` makes the job;
`writing` writes one, `option_lines` its options.
"""

from headnode.core.formats.batch.lines import BatchSystem, system_of
from headnode.core.formats.batch.reading import is_batch_script, place_of, read_script
from headnode.core.formats.batch.writing import write_script

__all__ = ["BatchSystem", "is_batch_script", "place_of", "read_script", "system_of", "write_script"]
