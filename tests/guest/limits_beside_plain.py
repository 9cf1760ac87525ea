"""How fast a sweep with a memory limit runs beside a plain one, with control groups of version 2 only.

    .venv/bin/python tests/guest/run.py -s tests/guest/limits_beside_plain.py

It prints the ratio of the medians of three turns.  Without KVM it takes some minutes.
"""

import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

import heads  # noqa: E402
from curves import wait_for  # noqa: E402 - it lies where benchmarks are

heads.TIMEOUT = 1800.0  # seconds: its processor is emulated
TASKS = 150
TURNS = 3


def test_a_sweep_with_a_memory_limit_beside_a_plain_one() -> None:
    """Print both rates and their ratio."""
    rates: dict[str, list[float]] = {"plain": [], "limited": []}
    with heads.head(processors=1) as here:
        for turn in range(TURNS + 1):
            for kind, seen in rates.items():
                terms = {"estimatedprocessmemory": "100"} if kind == "limited" else {}
                tasks = [{"command": "/bin/true", "parametric": f"1-{TASKS}"}]
                begun = time.perf_counter()
                wait_for(here, here.client.ask("submit_job", tasks=tasks, terms=terms)["job"])
                if turn:  # the first makes the groups, and warms everything
                    seen.append(TASKS / (time.perf_counter() - begun))
    plain, limited = (statistics.median(seen) for seen in rates.values())
    print(f"\nplain {plain:.1f}/s, with a memory limit {limited:.1f}/s, ratio {limited / plain:.2f}")
