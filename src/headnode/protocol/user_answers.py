"""What the verbs about users, shares, tokens and the audit log answer, and how a new token is asked for.

The page of the protocol is printed from it.
Times are seconds since 1970.  The comment of a field is what the page says of it.
"""

from typing import Annotated, Any

from msgspec import Meta

from headnode.core.model import bounds as b
from headnode.core.model.user import TokenRole
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import Duration, Name, VerbRequest, Word


class RequestingUser(VerbAnswer, frozen=True):
    """The requesting user, as the head knows it."""

    user: str
    uid: int
    role: str  # user, operator, administrator
    cluster: str


class NewTokenRequest(VerbRequest, frozen=True):
    """create_token."""

    user: Name = ""
    web: bool = False  # the login is a secret for take_login at gateway.sock
    lifetime: Duration = 90 * 86400.0  # of the token, in seconds
    name: Name = ""  # what the token is for
    role: TokenRole = "all"  # what it gives of the rights of its user; reader: to change nothing


class LoginAnswer(VerbAnswer, frozen=True):
    """create_token."""

    login: str  # the one line, see [clients of other machines](04-clients-of-other-machines.md)
    user: str
    expires: float  # of the login
    lifetime: float  # of the token, in seconds


class TokenObject(VerbAnswer, frozen=True):
    """A token that has not expired."""

    token: int
    user: str
    created: float
    expires: float
    last_used: float | None
    address: str
    name: str = ""
    role: TokenRole = "all"  # what it gives of the rights of its user


class TokensAnswer(VerbAnswer, frozen=True):
    """tokens."""

    tokens: list[TokenObject]


class RevokedToken(VerbAnswer, frozen=True):
    """revoke_token."""

    token: int


class LimitUse(VerbAnswer, frozen=True):
    """A limit of a user, project or group, and what its jobs have of it."""

    scope: str  # user, project or group
    name: str
    amount: str  # jobs, processors, gpus, submitted, or a limit of minutes such as gpu-minutes-per-job
    limit: int
    used: int  # of minutes also what is reserved; more than `limit` if that was lowered
    entry: str  # of the cluster parameter, from which it is: the name, `*`, or `@` and a group of the user


class ListLimitsRequest(VerbRequest, frozen=True):
    """limits.  `names`: only of these users, projects and groups."""

    names: Annotated[tuple[Name, ...], Meta(max_length=b.LIST.most)] = ()
    after: Word = ""  # `more` of the page before
    limit: int = 1000  # users, projects and groups


class LimitsAnswer(VerbAnswer, frozen=True):
    """limits."""

    every: bool  # of all; false: of the requesting user, its groups and the projects of its jobs
    exist: bool  # the cluster parameters UserLimits, ProjectLimits and GroupLimits have some
    limits: list[LimitUse]
    more: str | None  # to pass as `after`; null: there are no more


class AuditAnswer(VerbAnswer, frozen=True):
    """audit_log."""

    entries: list[dict[str, Any]]  # the newest lines of the audit log, oldest first


Secret = Annotated[str, Meta(max_length=b.SECRET.most)]


class DelegationNameRequest(VerbRequest, frozen=True):
    """forget_delegation and delegated_credential."""

    name: Name


class KeepDelegationRequest(VerbRequest, frozen=True):
    """keep_delegation: a proxy, or a token."""

    name: Name
    proxy: Secret = ""  # an X.509 proxy in PEM: certificate, key, chain
    bearer: Secret = ""  # a bearer token; a field called token would be in the audit log
    hosts: Annotated[tuple[Name, ...], Meta(max_length=b.SHORT_LIST.most)] = ()  # that may get the token
    lifetime: Duration = 7 * 86400.0  # of a token, in seconds; a proxy has its own
    job: int | None = None  # it is forgotten when this job is over


class DelegationObject(VerbAnswer, frozen=True):
    """keep_delegation and forget_delegation: a delegation without its secret."""

    name: str
    kind: str  # proxy or token
    hosts: list[str]
    expires: float
    job: int | None


class DelegationsAnswer(VerbAnswer, frozen=True):
    """delegations."""

    delegations: list[DelegationObject]


class DelegatedCredential(VerbAnswer, frozen=True):
    """delegated_credential."""

    values: dict[str, Any]  # as in a file of credentials; `proxy_text` has the proxy itself


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
