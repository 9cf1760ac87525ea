"""What users and projects have of the cluster, compared with their shares; what orders waiting jobs."""

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest, Word


class ShareObject(VerbAnswer, frozen=True):
    """The share of a user in a project, or of a project, and what its jobs have used of it."""

    user: str  # "" for all of a project
    project: str  # "" for jobs without one
    shares: int  # the number that was set; those who share the cluster, or a project, compare theirs
    part: float  # of the cluster, which it should get among those with jobs now: 0 to 1
    used: float  # processor-seconds, or what UsageWeights count; older ones count less
    used_part: float  # of what those with jobs now have used
    level: float | None  # what was used, by the share: 1 is as much as its part, of a user in a project there
    fair_share: float  # 1: nothing was used, 1/2: as much as its part, 0: far more


class ListSharesRequest(VerbRequest, frozen=True):
    """shares."""

    after: Word = ""  # `more` of the page before
    limit: int = 1000  # users, in each of their projects


class SharesAnswer(VerbAnswer, frozen=True):
    """shares."""

    every: bool  # of all users; false: of the requesting user and the projects of its jobs
    weighted: bool  # waiting jobs are ordered by it; false: by priority and submission, or by a plug-in
    total: float  # of all users
    half_life: float  # seconds after which usage counts half
    projects: list[ShareObject]  # those of the users of this page, as far as the requesting user may see them
    users: list[ShareObject]  # the requesting user also in each project with limits or shares of its own
    more: str | None  # to pass as `after`; null: there are no more


class PriorityScore(VerbAnswer, frozen=True):
    """What orders a waiting job within its priority: each factor times its weight."""

    fair_share: float
    age: float
    size: float


class WaitingJobPriority(VerbAnswer, frozen=True):
    """The priority of a waiting job, and what orders it within that."""

    job: int
    owner: str
    project: str
    priority: int
    score: PriorityScore | None  # null: PriorityWeights has none


class FactorWeights(VerbAnswer, frozen=True):
    """The weights of PriorityWeights."""

    fair_share: int
    age: int
    size: int


class ListPrioritiesRequest(VerbRequest, frozen=True):
    """priorities."""

    after: int = 0  # only jobs with larger numbers
    limit: int = 10_000


class PrioritiesAnswer(VerbAnswer, frozen=True):
    """priorities."""

    weights: FactorWeights
    jobs: list[WaitingJobPriority]  # by number
    more: int | None  # to pass as `after`; null: there are no more
