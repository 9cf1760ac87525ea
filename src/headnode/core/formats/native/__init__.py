"""The native form: a job as TOML or JSON, in few words, for people.

A first sweep, which runs a program a hundred times:

    name = "first sweep"
    command = "./simulate --case *"
    sweep = "1-100"
    run_time = "20m"
    stdout = "case.***.txt"

A file without tables of tasks describes a job of one task, as above.  With several tasks, each has a table,
and what stands above the first is said of the job as a whole:

    name = "flow"
    processors = "2-8"

    [[tasks]]
    name = "prepare"
    command = "./prepare"

    [[tasks]]
    command = "./solve *"
    sweep = "1-100"
    depends_on = "prepare"

    [tasks.environment]
    OMP_NUM_THREADS = "1"

Several jobs come in one file as tables of jobs, which wait for one another by name:

    [[jobs]]
    name = "mesh"
    command = "./mesh"

    [[jobs]]
    command = "./solve"
    parents = "mesh"

A text that begins with a brace is JSON with the same keys.
"""

from headnode.core.formats.native.reading import NativeJobs, place_of, read_job, read_jobs
from headnode.core.formats.native.writing import JSON, TOML, job_document, json_schema, write_job, write_jobs

__all__ = [
    "JSON",
    "TOML",
    "NativeJobs",
    "job_document",
    "json_schema",
    "place_of",
    "read_job",
    "read_jobs",
    "write_job",
    "write_jobs",
]
