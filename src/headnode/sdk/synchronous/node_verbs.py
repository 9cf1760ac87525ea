"""Verbs about nodes, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Literal

from headnode.protocol.answers import HistoryAnswer
from headnode.protocol.cluster_answers import RemovedAnswer
from headnode.protocol.node_answers import (
    CanceledReservation,
    ChangedReservation,
    InvitationAnswer,
    NodeAnswer,
    NodesAnswer,
    ReservationAnswer,
    ReservationsAnswer,
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
from headnode.sdk.synchronous.verb_calls import VerbCalls, new_key


class NodeVerbs(VerbCalls):
    """Verbs about nodes."""

    def nodes(self, *, states: list[str] | None = None) -> NodesAnswer:
        """Show the nodes.

        For everybody.
        """
        return self._ask("nodes", ListNodesRequest(states=states or []), NodesAnswer)

    def node(self, node: str) -> NodeAnswer:
        """Show one node.

        For everybody.
        """
        return self._ask("node", NodeNameRequest(node=node), NodeAnswer)

    def node_history(self, node: str, *, limit: int = 200) -> HistoryAnswer:
        """Show what happened to a node, also to one that was removed.

        For everybody.
        """
        return self._ask("node_history", NodeHistoryRequest(node=node, limit=limit), HistoryAnswer)

    def approve_node(self, node: str) -> NodeAnswer:
        """Let a pending node take jobs.

        For administrators.
        """
        return self._ask("approve_node", NodeNameRequest(node=node), NodeAnswer)

    def pause_node(self, node: str) -> NodeAnswer:
        """Start no new jobs on a node.

        For administrators.
        """
        return self._ask("pause_node", NodeNameRequest(node=node), NodeAnswer)

    def resume_node(self, node: str) -> NodeAnswer:
        """Let a paused or drained node take jobs again.

        For administrators.
        """
        return self._ask("resume_node", NodeNameRequest(node=node), NodeAnswer)

    def drain_node(
        self, node: str, *, closes: float | None = None, reason: str = "", force: bool = False
    ) -> NodeAnswer:
        """Start no new jobs on a node but those that end by a date; with `force` its tasks are stopped then.

        For administrators.

        closes: None: now
        force: its tasks are stopped
        """
        return self._ask(
            "drain_node", DrainNodeRequest(node=node, closes=closes, reason=reason, force=force), NodeAnswer
        )

    def invite_node(
        self,
        *,
        lifetime: float = 86400.0,
        approve: bool = False,
        node: str = "",
        idempotency: str | None = None,
    ) -> InvitationAnswer:
        """Make an invitation for a node, which works once.

        For administrators.

        lifetime: seconds
        node: the name that the node must have
        """
        return self._ask(
            "invite_node",
            InviteNodeRequest(lifetime=lifetime, approve=approve, node=node),
            InvitationAnswer,
            idempotency or new_key(),
        )

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
        return self._ask(
            "modify_node",
            SetNodeRequest(node=node, groups=groups, features=features, comment=comment),
            NodeAnswer,
        )

    def remove_node(self, node: str) -> RemovedAnswer:
        """Remove a node from the cluster; its key is no longer valid.

        For administrators.
        """
        return self._ask("remove_node", NodeNameRequest(node=node), RemovedAnswer)

    def reservations(self) -> ReservationsAnswer:
        """Show every reservation, in the order in which they begin.

        For everybody.
        """
        return self._ask("reservations", VerbRequest(), ReservationsAnswer)

    def reservation(self, name: str) -> ReservationAnswer:
        """Show one reservation.

        For everybody.
        """
        return self._ask("reservation", ReservationNameRequest(name=name), ReservationAnswer)

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
        return self._ask(
            "create_reservation",
            SetReservationRequest(
                name=name,
                start=start,
                end=end,
                duration=duration,
                nodes=nodes,
                count=count,
                node_groups=node_groups,
                features=features,
                users=users,
                groups=groups,
                projects=projects,
                at_end=at_end,
                automatic=automatic,
                reason=reason,
                ignore_running=ignore_running,
            ),
            ChangedReservation,
            idempotency or new_key(),
        )

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
        return self._ask(
            "modify_reservation",
            SetReservationRequest(
                name=name,
                start=start,
                end=end,
                duration=duration,
                nodes=nodes,
                count=count,
                node_groups=node_groups,
                features=features,
                users=users,
                groups=groups,
                projects=projects,
                at_end=at_end,
                automatic=automatic,
                reason=reason,
                ignore_running=ignore_running,
            ),
            ChangedReservation,
        )

    def cancel_reservation(self, name: str) -> CanceledReservation:
        """Cancel a reservation; show the jobs that named it.

        For administrators.
        """
        return self._ask("cancel_reservation", ReservationNameRequest(name=name), CanceledReservation)
