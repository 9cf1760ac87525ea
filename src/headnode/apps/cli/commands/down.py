"""``hn down``: end the head of this machine."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option
from headnode.apps.cli.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

PATIENCE = 60.0  # seconds a head may take to end
PAUSE = 0.05


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """End the head and wait until it is gone; say what goes on without it."""
    process = client.ask("ping")["pid"]
    answer = client.ask("down", cancel_jobs=asked.flag("cancel-jobs") or None)
    client.close()
    if client.login is None:
        _wait_for_end_of(process)
    running = answer["running_tasks"]
    said = "The head has ended."
    if running:
        said += f" {counted(running, 'task goes', 'tasks go')} on without it; hn up takes up where it was."
    out.said(said, answer)
    return 0


def _wait_for_end_of(process: int) -> None:
    import time

    deadline = time.monotonic() + PATIENCE
    while _lives(process):
        if time.monotonic() > deadline:
            from headnode.core.model.errors import Unavailable

            raise Unavailable(
                code="head-slow",
                what=f"the head, process {process}, still has not ended after {PATIENCE:.0f} seconds",
                fix=f"see its log; if it must end: kill {process}; nothing acknowledged is lost",
            )
        time.sleep(PAUSE)


def _lives(process: int) -> bool:
    """Whether the process is there and no zombie, which a parent that does not look may leave."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 (pathlib costs 6 ms)
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


COMMANDS = (
    Command(
        "down",
        "",
        "Stop the cluster of this machine",
        run,
        options=(Option("cancel-jobs", "", "Cancel all jobs first (default: their tasks continue)"),),
        example="hn down",
        notes=("Running tasks continue; the next hn up reconnects to them. Queued jobs stay queued.",),
    ),
)
