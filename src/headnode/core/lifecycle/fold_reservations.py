"""Apply the events of reservations of nodes."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster


def kept(cluster: Cluster, event: e.ReservationMade | e.ReservationChanged) -> None:
    """Nodes are reserved, or otherwise than before."""
    cluster.keep_reservation(event.reservation)


def gone(cluster: Cluster, event: e.ReservationCanceled | e.ReservationEnded) -> None:
    """A reservation is no more."""
    cluster.drop_reservation(event.name.lower())
