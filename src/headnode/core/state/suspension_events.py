"""Events of jobs that are suspended and resumed."""

from headnode.core.state.job_events import JobEvent, NodeCores


class JobSuspending(JobEvent, frozen=True, gc=False, tag="JobSuspending"):
    """The nodes of the job stop its processes.  `number` counts the suspensions of the job.

    `staging`: not by request, but until files for its tasks have been copied to its nodes."""

    number: int
    by: str = ""
    staging: bool = False


class ProcessesStopped(JobEvent, frozen=True, gc=False, tag="ProcessesStopped"):
    """All processes of the job on one of its nodes are stopped; those on other nodes are not yet."""

    node: str


class JobSuspended(JobEvent, frozen=True, gc=False, tag="JobSuspended"):
    """All processes of the job are stopped; its resources are released, and its run time limit does not run.

    A job that was waiting to resume no longer waits."""

    by: str = ""
    staging: bool = False


class JobResuming(JobEvent, frozen=True, gc=False, tag="JobResuming"):
    """The job waits at its old position in the queue for the processors that it held."""

    by: str = ""
    staging: bool = False


class JobResumed(JobEvent, frozen=True, gc=False, tag="JobResumed"):
    """The job holds as many processors of the same nodes as before, and its processes continue."""

    allocation: NodeCores
    by: str = ""
