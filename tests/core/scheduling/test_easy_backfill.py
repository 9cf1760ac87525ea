"""EASY backfill by its stories; `test_every_small_world` holds the promises."""

from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.decision import Why
from headnode.core.scheduling.easy_backfill import plan

from .scenes import MINUTE, NOW, asks, node, runs, scene, start

EIGHT_DUALS = [node(f"n{i}") for i in range(1, 9)]
BUSY_HALF = runs(1, asks(8, exclusive=True), *((f"n{i}", 2) for i in range(1, 5)), minutes_left=15)


def test_compute_cluster_example_eight_processors_for_ten_minutes_fit_the_window_of_four_nodes() -> None:
    """16 processors on dual-processor nodes, 4 nodes idle for 15 minutes (CCS, "Backfilling")."""
    whole, slow, quick = asks(16, minutes=60), asks(8, minutes=20), asks(8, minutes=10)
    decided = plan(scene(EIGHT_DUALS, [BUSY_HALF], [(2, whole), (3, slow), (4, quick)]))
    assert decided.starts == (start(4, ("n5", 2), ("n6", 2), ("n7", 2), ("n8", 2), ahead_of=2),)
    assert decided.waits[whole].not_before == NOW + 15 * MINUTE
    assert Why.RESERVATION in {reason.why for reason in decided.waits[slow].reasons}
    assert decided.waits[slow].not_before == NEVER
