"""Verbs about the cluster, templates, filters and users, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

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
    RemovedAnswer,
    StoredTemplate,
    TemplateAnswer,
    TemplatesAnswer,
)
from headnode.protocol.requests import (
    AuditLogRequest,
    ListTokensRequest,
    NewTokenRequest,
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
from headnode.protocol.user_answers import (
    AuditAnswer,
    LoginAnswer,
    RequestingUser,
    RevokedToken,
    TokensAnswer,
)
from headnode.sdk.asynchronous.verb_calls import AsyncVerbCalls, new_key


class AsyncClusterVerbs(AsyncVerbCalls):
    """Verbs about the cluster, templates, filters and users."""

    async def templates(self) -> TemplatesAnswer:
        """Show every job template; Default is always among them.

        For everybody.
        """
        return await self._ask("templates", VerbRequest(), TemplatesAnswer)

    async def template(self, template: str, *, form: str = "toml") -> TemplateAnswer:
        """Show one job template, and its file in TOML or as XML of HPC Pack.

        For everybody.

        form: toml or hpcpack
        """
        return await self._ask("template", ShowTemplateRequest(template=template, form=form), TemplateAnswer)

    async def set_template(self, text: str) -> StoredTemplate:
        """Create or replace a job template from its file.

        For administrators.

        text: of a file: TOML, JSON or XML of HPC Pack
        """
        return await self._ask("set_template", SetTemplateRequest(text=text), StoredTemplate)

    async def remove_template(self, template: str) -> RemovedAnswer:
        """Remove a job template.

        For administrators.
        """
        return await self._ask("remove_template", TemplateNameRequest(template=template), RemovedAnswer)

    async def filters(self) -> FiltersAnswer:
        """Show the filters in calling order, and the plug-ins that are installed.

        For everybody.
        """
        return await self._ask("filters", VerbRequest(), FiltersAnswer)

    async def test_filter(
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
        return await self._ask(
            "test_filter",
            TestFilterRequest(
                filter=filter,
                jobfile=jobfile,
                kind=kind,
                dialect=dialect,
                running=running,
                backfill=backfill,
                resources=resources,
            ),
            FilterTrial,
        )

    async def ping(self) -> PingAnswer:
        """Show which head answers.

        For everybody.
        """
        return await self._ask("ping", VerbRequest(), PingAnswer)

    async def submission_defaults(self) -> DefaultsAnswer:
        """Show what a job from the command line takes from the shell of its submitter by default.

        For everybody.
        """
        return await self._ask("submission_defaults", VerbRequest(), DefaultsAnswer)

    async def cluster(self) -> ClusterAnswer:
        """Show the cluster.

        For everybody.
        """
        return await self._ask("cluster", VerbRequest(), ClusterAnswer)

    async def parameters(self) -> ParametersAnswer:
        """Show the cluster's parameters.

        For everybody.
        """
        return await self._ask("parameters", VerbRequest(), ParametersAnswer)

    async def set_parameters(self, values: dict[str, str | None]) -> ParametersAnswer:
        """Set cluster parameters; all of them or, if one is wrong, none.

        For administrators.
        """
        return await self._ask("set_parameters", SetParametersRequest(values=values), ParametersAnswer)

    async def backup(self) -> BackupAnswer:
        """Copy the journal into a new file in the state directory, which the client must remove.

        For administrators; only on the head's machine.
        """
        return await self._ask("backup", VerbRequest(), BackupAnswer)

    async def stop_head(self, *, cancel_jobs: bool = False) -> DownAnswer:
        """End the head. Running tasks go on, and the next head learns how they ended.

        For administrators.

        cancel_jobs: all jobs are canceled first
        """
        return await self._ask("stop_head", StopHeadRequest(cancel_jobs=cancel_jobs), DownAnswer)

    async def ended_jobs(
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
        return await self._ask(
            "ended_jobs", PastJobsRequest(after=after, limit=limit, since=since, until=until), PastJobsAnswer
        )

    async def parameter_history(
        self, *, names: list[str] | None = None, limit: int = 1000
    ) -> ParameterHistoryAnswer:
        """Show the newest changes of cluster parameters; `by` and `from` only to administrators.

        For everybody.
        """
        return await self._ask(
            "parameter_history",
            ParameterHistoryRequest(names=names or [], limit=limit),
            ParameterHistoryAnswer,
        )

    async def predictions(self, *, since: float | None = None) -> PredictionsAnswer:
        """Show how often predicted starts held, of the jobs that had to wait and started since then.

        For everybody.
        """
        return await self._ask("predictions", PredictionScoresRequest(since=since), PredictionsAnswer)

    async def metrics(self) -> MetricsAnswer:
        """Show counts, counters and durations.  Counters begin at the start of the head.

        For everybody.
        """
        return await self._ask("metrics", VerbRequest(), MetricsAnswer)

    async def whoami(self) -> RequestingUser:
        """Show the requesting user as the head knows it.

        For everybody.
        """
        return await self._ask("whoami", VerbRequest(), RequestingUser)

    async def create_token(
        self,
        *,
        user: str = "",
        web: bool = False,
        lifetime: float = 7776000.0,
        idempotency: str | None = None,
    ) -> LoginAnswer:
        """Offer a login: a client of another machine exchanges it once for a token.

        For everybody; only on the head's machine.

        web: the login is a secret for take_login at gateway.sock
        lifetime: of the token, in seconds
        """
        return await self._ask(
            "create_token",
            NewTokenRequest(user=user, web=web, lifetime=lifetime),
            LoginAnswer,
            idempotency or new_key(),
        )

    async def tokens(self, *, user: str | None = None) -> TokensAnswer:
        """Show the requesting user's tokens; to administrators also those of other users.

        For everybody.

        user: None: the requesting user; `*`: all users
        """
        return await self._ask("tokens", ListTokensRequest(user=user), TokensAnswer)

    async def revoke_token(self, token: int) -> RevokedToken:
        """Revoke a token.

        For everybody.

        token: its number
        """
        return await self._ask("revoke_token", RevokeTokenRequest(token=token), RevokedToken)

    async def audit_log(
        self, *, job: int | None = None, user: str = "", since: float | None = None, limit: int = 1000
    ) -> AuditAnswer:
        """Show the newest lines of the audit log.

        For administrators.
        """
        return await self._ask(
            "audit_log", AuditLogRequest(job=job, user=user, since=since, limit=limit), AuditAnswer
        )
