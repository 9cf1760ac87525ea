"""Verbs about nodes and resources, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Literal

from headnode.protocol.answers import HistoryAnswer
from headnode.protocol.cluster_answers import RemovedAnswer
from headnode.protocol.node_answers import (
    CanceledReservation,
    ChangedReservation,
    InvitationAnswer,
    InviteStandbyRequest,
    NodeAnswer,
    NodesAnswer,
    ReservationAnswer,
    ReservationsAnswer,
    StandbyInvitationAnswer,
    StandbyNameRequest,
    StandbysAnswer,
)
from headnode.protocol.requests import (
    DrainNodeRequest,
    InviteNodeRequest,
    ListNodesRequest,
    NodeHistoryRequest,
    NodeNameRequest,
    ReservationNameRequest,
    SetNodeRequest,
    SetReservationRequest,
    VerbRequest,
)
from headnode.protocol.resource_answers import (
    ElasticNameRequest,
    ElasticPoolAnswer,
    ElasticPoolsAnswer,
    PauseElasticRequest,
    ResourceAnswer,
    ResourceNameRequest,
    ResourcesAnswer,
    SetElasticRequest,
    SetResourceRequest,
)
from headnode.sdk.verbs.verb_methods import verb_of


class NodeVerbs:
    """Verbs about nodes and resources."""

    @verb_of(ListNodesRequest)
    def nodes(self, *, states: list[str] | None = None) -> NodesAnswer:
        """Show the nodes.

        For everybody.
        """

    @verb_of(NodeNameRequest)
    def node(self, node: str) -> NodeAnswer:
        """Show one node.

        For everybody.
        """

    @verb_of(NodeHistoryRequest)
    def node_history(self, node: str, *, limit: int = 200) -> HistoryAnswer:
        """Show what happened to a node, also to one that was removed.

        For everybody.
        """

    @verb_of(NodeNameRequest)
    def approve_node(self, node: str) -> NodeAnswer:
        """Let a pending node take jobs.

        For administrators.
        """

    @verb_of(NodeNameRequest)
    def pause_node(self, node: str) -> NodeAnswer:
        """Start no new jobs on a node.

        For administrators.
        """

    @verb_of(NodeNameRequest)
    def resume_node(self, node: str) -> NodeAnswer:
        """Let a paused or drained node take jobs again.

        For administrators.
        """

    @verb_of(DrainNodeRequest)
    def drain_node(
        self, node: str, *, closes: float | None = None, reason: str = "", force: bool = False
    ) -> NodeAnswer:
        """Start no new jobs on a node but those that end by a date; with `force` its tasks are stopped then.

        For administrators.

        closes: None: now
        force: its tasks are stopped
        """

    @verb_of(InviteNodeRequest, creates=True)
    def invite_node(
        self,
        *,
        lifetime: float = 86400.0,
        approve: bool = False,
        node: str = "",
        nodes: list[str] | None = None,
        idempotency: str | None = None,
    ) -> InvitationAnswer:
        """Make an invitation, which works once, or once for each of `nodes`.

        For administrators.

        lifetime: seconds
        node: the name that the node must have
        nodes: each of these nodes may join once
        """

    @verb_of(SetNodeRequest)
    def modify_node(
        self,
        node: str,
        *,
        groups: list[str] | None = None,
        features: list[str] | None = None,
        comment: str | None = None,
    ) -> NodeAnswer:
        """Set the groups, features and comment of a node. Missing fields stay unchanged.

        For administrators.
        """

    @verb_of(NodeNameRequest)
    def remove_node(self, node: str) -> RemovedAnswer:
        """Remove a node from the cluster; its key is no longer valid.

        For administrators.
        """

    @verb_of(VerbRequest)
    def reservations(self) -> ReservationsAnswer:
        """Show every reservation, in the order in which they begin.

        For everybody.
        """

    @verb_of(ReservationNameRequest)
    def reservation(self, name: str) -> ReservationAnswer:
        """Show one reservation.

        For everybody.
        """

    @verb_of(SetReservationRequest, creates=True)
    def create_reservation(
        self,
        name: str,
        *,
        start: float | None = None,
        end: float | None = None,
        duration: float | None = None,
        nodes: str | None = None,
        count: int | None = None,
        node_groups: list[str] | None = None,
        features: list[str] | None = None,
        users: list[str] | None = None,
        groups: list[str] | None = None,
        projects: list[str] | None = None,
        at_end: Literal["limit", "run-on", "cancel"] | None = None,
        automatic: bool | None = None,
        reason: str | None = None,
        ignore_running: bool = False,
        idempotency: str | None = None,
    ) -> ChangedReservation:
        """Reserve nodes; show the promised starts that it moves.

        For administrators.

        start: None: now
        end: or `duration`
        duration: seconds
        nodes: names and sets, or `count`
        users: with no users, groups and projects it is for maintenance
        at_end: limit, run-on, cancel
        """

    @verb_of(SetReservationRequest)
    def modify_reservation(
        self,
        name: str,
        *,
        start: float | None = None,
        end: float | None = None,
        duration: float | None = None,
        nodes: str | None = None,
        count: int | None = None,
        node_groups: list[str] | None = None,
        features: list[str] | None = None,
        users: list[str] | None = None,
        groups: list[str] | None = None,
        projects: list[str] | None = None,
        at_end: Literal["limit", "run-on", "cancel"] | None = None,
        automatic: bool | None = None,
        reason: str | None = None,
        ignore_running: bool = False,
    ) -> ChangedReservation:
        """Change a reservation; show the promised starts that it moves. Missing fields stay unchanged.

        For administrators.

        start: None: now
        end: or `duration`
        duration: seconds
        nodes: names and sets, or `count`
        users: with no users, groups and projects it is for maintenance
        at_end: limit, run-on, cancel
        """

    @verb_of(ReservationNameRequest)
    def cancel_reservation(self, name: str) -> CanceledReservation:
        """Cancel a reservation; show the jobs that named it.

        For administrators.
        """

    @verb_of(VerbRequest)
    def resources(self) -> ResourcesAnswer:
        """Show every resource.

        For everybody.
        """

    @verb_of(ResourceNameRequest)
    def resource(self, name: str) -> ResourceAnswer:
        """Show one resource, and how its last poll went.

        For everybody.
        """

    @verb_of(SetResourceRequest)
    def set_resource(
        self,
        name: str,
        *,
        system: str | None = None,
        host: str | None = None,
        programs: str | None = None,
        settings: str | None = None,
        directory: str | None = None,
        queue: str | None = None,
        parallel: str | None = None,
        most_jobs: int | None = None,
        poll: float | None = None,
        settle: float | None = None,
        overlay: bool | None = None,
        lost_after: float | None = None,
    ) -> ResourceAnswer:
        """Add a resource, or change one. Missing fields stay unchanged.

        For administrators.

        system: slurm, pbs or gridengine
        host: where its commands run, by ssh; empty: on the head's machine
        programs: directory of its commands; empty: found by PATH
        settings: SLURM_CONF, PBS_CONF_FILE or SGE_ROOT
        directory: for files of attempts; empty: in the home of each user
        queue: partition or queue; empty: that of the site
        parallel: parallel environment of Grid Engine
        most_jobs: of ours there at a time
        poll: between two polls, at least
        settle: until a submission without an answer may be repeated
        overlay: jobs that name no resource go there, and its queue is shown
        lost_after: until a job counts as lost that is no longer listed
        """

    @verb_of(ResourceNameRequest)
    def remove_resource(self, name: str) -> RemovedAnswer:
        """Remove a resource where no job of ours is, and to which none goes.

        For administrators.
        """

    @verb_of(VerbRequest)
    def elastic_pools(self) -> ElasticPoolsAnswer:
        """Show every elastic pool.

        For everybody.
        """

    @verb_of(ElasticNameRequest)
    def elastic_pool(self, name: str) -> ElasticPoolAnswer:
        """Show one elastic pool, its allocations, and why it does not make more.

        For everybody.
        """

    @verb_of(SetElasticRequest)
    def set_elastic_pool(
        self,
        name: str,
        *,
        resource: str | None = None,
        most_nodes: int | None = None,
        most_node_hours: float | None = None,
        node_price: float | None = None,
        most_cost: float | None = None,
        most_queued: int | None = None,
        allocation_time: float | None = None,
        processors: int | None = None,
        memory: int | None = None,
        idle_time: float | None = None,
        margin: float | None = None,
        retry: float | None = None,
        gpus: int | None = None,
        python: str | None = None,
    ) -> ElasticPoolAnswer:
        """Add an elastic pool, or change one. Missing fields stay unchanged.

        For administrators.

        resource: where its allocations are jobs
        most_node_hours: in all; 0: no limit
        node_price: of a node-hour, in the currency of the site
        most_cost: in all, in the same currency; 0: no limit
        most_queued: allocations that have not become nodes yet
        processors: of each node
        memory: MB of each node; 0: none is asked for
        idle_time: a node without a job for so long leaves
        margin: so long before its allocation ends a node has no job
        retry: after a failed allocation; doubled with each that fails after it
        gpus: of each node
        python: the Python with Headnode at the resource; empty: that of the head
        """

    @verb_of(PauseElasticRequest)
    def pause_elastic_pool(self, name: str, *, reason: str = "") -> ElasticPoolAnswer:
        """Let an elastic pool make no more allocations; those that there are stay.

        For administrators.
        """

    @verb_of(ElasticNameRequest)
    def resume_elastic_pool(self, name: str) -> ElasticPoolAnswer:
        """Let a paused elastic pool make allocations again; its failures are forgotten.

        For administrators.
        """

    @verb_of(ElasticNameRequest)
    def remove_elastic_pool(self, name: str) -> RemovedAnswer:
        """Cancel all allocations of an elastic pool, and remove it when they are over.

        For administrators.
        """

    @verb_of(VerbRequest)
    def standbys(self) -> StandbysAnswer:
        """Show the standby heads, and how far each is.

        For everybody.
        """

    @verb_of(InviteStandbyRequest, creates=True)
    def invite_standby(
        self, *, lifetime: float = 3600.0, name: str = "", idempotency: str | None = None
    ) -> StandbyInvitationAnswer:
        """Make an invitation for a standby head, which works once. It gets the keys of the cluster.

        For administrators.

        lifetime: seconds
        name: the name that the standby must have
        """

    @verb_of(StandbyNameRequest)
    def remove_standby(self, name: str) -> RemovedAnswer:
        """Send no more events to a standby head. It keeps the keys that it has.

        For administrators.
        """
