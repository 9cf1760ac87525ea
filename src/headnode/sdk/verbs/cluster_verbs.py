"""Verbs about the cluster, templates, filters and users, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Literal

from headnode.protocol.cluster_answers import (
    BackupAnswer,
    ClusterAnswer,
    DefaultsAnswer,
    DownAnswer,
    FiltersAnswer,
    FilterTrial,
    MetricsAnswer,
    ParameterHistoryAnswer,
    ParametersAnswer,
    PastJobsAnswer,
    PingAnswer,
    PredictionsAnswer,
    RefundAnswer,
    RemovedAnswer,
    StoredTemplate,
    TemplateAnswer,
    TemplatesAnswer,
)
from headnode.protocol.requests import (
    AuditLogRequest,
    JobIdRequest,
    ListTokensRequest,
    ParameterHistoryRequest,
    PastJobsRequest,
    PredictionScoresRequest,
    RevokeTokenRequest,
    SetParametersRequest,
    SetTemplateRequest,
    ShowTemplateRequest,
    StopHeadRequest,
    TemplateNameRequest,
    TestFilterRequest,
    VerbRequest,
)
from headnode.protocol.resource_answers import SiteJobsAnswer, SiteJobsRequest, SiteNodesAnswer
from headnode.protocol.user_answers import (
    AuditAnswer,
    DelegatedCredential,
    DelegationNameRequest,
    DelegationObject,
    DelegationsAnswer,
    KeepDelegationRequest,
    LoginAnswer,
    NewTokenRequest,
    RequestingUser,
    RevokedToken,
    TokensAnswer,
)
from headnode.sdk.verbs.verb_methods import verb_of


class ClusterVerbs:
    """Verbs about the cluster, templates, filters and users."""

    @verb_of(VerbRequest)
    def whoami(self) -> RequestingUser:
        """Show the requesting user as the head knows it.

        For everybody.
        """

    @verb_of(VerbRequest)
    def ping(self) -> PingAnswer:
        """Show which head answers.

        For everybody.
        """

    @verb_of(VerbRequest)
    def submission_defaults(self) -> DefaultsAnswer:
        """Show what a job from the command line takes from the shell of its submitter by default.

        For everybody.
        """

    @verb_of(VerbRequest)
    def cluster(self) -> ClusterAnswer:
        """Show the cluster.

        For everybody.
        """

    @verb_of(VerbRequest)
    def parameters(self) -> ParametersAnswer:
        """Show the cluster's parameters.

        For everybody.
        """

    @verb_of(SetParametersRequest)
    def set_parameters(self, values: dict[str, str | None]) -> ParametersAnswer:
        """Set cluster parameters; all of them or, if one is wrong, none.

        An unknown user or group in a value is accepted: `notes` of the answer names it.

        For administrators.
        """

    @verb_of(VerbRequest)
    def backup(self) -> BackupAnswer:
        """Copy the journal into a new file in the state directory, which the client must remove.

        For administrators; only on the head's machine.
        """

    @verb_of(StopHeadRequest)
    def stop_head(self, *, cancel_jobs: bool = False) -> DownAnswer:
        """End the head. Running tasks go on, and the next head learns how they ended.

        For administrators.

        cancel_jobs: all jobs are canceled first
        """

    @verb_of(PastJobsRequest)
    def ended_jobs(
        self, *, after: int = 0, limit: int = 1000, since: float | None = None, until: float | None = None
    ) -> PastJobsAnswer:
        """Show a page of the jobs that have ended, in the order of their ids.

        An answer examines `limit` ended jobs and has those of the period, maybe none.

        For everybody.

        after: an id
        limit: at most 5,000
        since: of submission
        until: of submission
        """

    @verb_of(ParameterHistoryRequest)
    def parameter_history(
        self, *, names: list[str] | None = None, limit: int = 1000
    ) -> ParameterHistoryAnswer:
        """Show the newest changes of cluster parameters; `by` and `from` only to administrators.

        For everybody.
        """

    @verb_of(PredictionScoresRequest)
    def predictions(self, *, since: float | None = None) -> PredictionsAnswer:
        """Show how often predicted starts held, of the jobs that had to wait and started since then.

        For everybody.
        """

    @verb_of(VerbRequest)
    def metrics(self) -> MetricsAnswer:
        """Show counts, counters and durations.  Counters begin at the start of the head.

        For everybody.
        """

    @verb_of(NewTokenRequest, creates=True)
    def create_token(
        self,
        *,
        user: str = "",
        web: bool = False,
        lifetime: float = 7776000.0,
        name: str = "",
        role: Literal["all", "operator", "user", "reader"] = "all",
        idempotency: str | None = None,
    ) -> LoginAnswer:
        """Offer a login: a client of another machine exchanges it once for a token.

        For everybody; only on the head's machine, or logged in at a gateway with a browser.

        web: the login is a secret for take_login at gateway.sock
        lifetime: of the token, in seconds
        name: what the token is for
        role: what it gives of the rights of its user; reader: to change nothing
        """

    @verb_of(ListTokensRequest)
    def tokens(self, *, user: str | None = None) -> TokensAnswer:
        """Show the requesting user's tokens; to administrators also those of other users.

        For everybody.

        user: None: the requesting user; `*`: all users
        """

    @verb_of(RevokeTokenRequest)
    def revoke_token(self, token: int) -> RevokedToken:
        """Revoke a token.

        For everybody.

        token: its number
        """

    @verb_of(AuditLogRequest)
    def audit_log(
        self, *, job: int | None = None, user: str = "", since: float | None = None, limit: int = 1000
    ) -> AuditAnswer:
        """Show the newest lines of the audit log.

        For administrators.
        """

    @verb_of(VerbRequest)
    def templates(self) -> TemplatesAnswer:
        """Show every job template; Default is always among them.

        For everybody.
        """

    @verb_of(ShowTemplateRequest)
    def template(self, template: str, *, form: str = "toml") -> TemplateAnswer:
        """Show one job template, and its file in TOML or as XML of HPC Pack.

        For everybody.

        form: toml or hpcpack
        """

    @verb_of(SetTemplateRequest)
    def set_template(self, text: str) -> StoredTemplate:
        """Create or replace a job template from its file.

        For administrators.

        text: of a file: TOML, JSON or XML of HPC Pack
        """

    @verb_of(TemplateNameRequest)
    def remove_template(self, template: str) -> RemovedAnswer:
        """Remove a job template.

        For administrators.
        """

    @verb_of(VerbRequest)
    def filters(self) -> FiltersAnswer:
        """Show the filters in calling order, and the plug-ins that are installed.

        For everybody.
        """

    @verb_of(TestFilterRequest)
    def test_filter(
        self,
        filter: str,
        jobfile: str,
        *,
        kind: str = "",
        dialect: str | None = None,
        running: bool = False,
        backfill: bool = False,
        resources: int = 1,
    ) -> FilterTrial:
        """Call one filter with a job file, outside the queue, and show what its answer would do.

        For administrators.

        filter: a registered name, or the text that would register it
        kind: submission or activation
        """

    @verb_of(KeepDelegationRequest)
    def keep_delegation(
        self,
        name: str,
        *,
        proxy: str = "",
        bearer: str = "",
        hosts: tuple[str, ...] = (),
        lifetime: float = 604800.0,
        job: int | None = None,
    ) -> DelegationObject:
        """Keep a proxy or a token for storage, in place of one of the same name.

        For everybody.

        proxy: an X.509 proxy in PEM: certificate, key, chain
        bearer: a bearer token; a field called token would be in the audit log
        hosts: that may get the token
        lifetime: of a token, in seconds; a proxy has its own
        job: it is forgotten when this job is over
        """

    @verb_of(VerbRequest)
    def delegations(self) -> DelegationsAnswer:
        """Show the delegations of the requesting user, without their secrets.

        For everybody.
        """

    @verb_of(DelegationNameRequest)
    def forget_delegation(self, name: str) -> DelegationObject:
        """Forget a delegation; jobs that need it fail from then on.

        For everybody.
        """

    @verb_of(DelegationNameRequest)
    def delegated_credential(self, name: str) -> DelegatedCredential:
        """Show a delegation with its secret to a task of its user, or on the head's machine to the user.

        For everybody; only on the head's machine.
        """

    @verb_of(SiteJobsRequest)
    def site_jobs(self, *, ended: bool = False, user: str | None = None, limit: int = 1000) -> SiteJobsAnswer:
        """Show the queue of the site under the overlay: running jobs first, then waiting ones in their order.

        If the site hides jobs, users other than administrators see only their own.

        For everybody.

        ended: those that have ended, newest first
        user: only of this user
        """

    @verb_of(VerbRequest)
    def site_nodes(self) -> SiteNodesAnswer:
        """Show the nodes of the site under the overlay.

        For everybody.
        """

    @verb_of(JobIdRequest)
    def refund_job(self, job: int) -> RefundAnswer:
        """Ask the bank to refund all that a job was charged.

        For administrators.
        """
