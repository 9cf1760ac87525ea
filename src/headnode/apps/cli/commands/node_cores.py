"""``hn node listcores``: what each processor does."""

from headnode.apps.cli.command import FORMAT, STATE, Command
from headnode.apps.cli.options import Option
from headnode.apps.cli.screens.node import CORE_COLUMNS, CORE_STATES, CORE_WIDTHS, core_rows
from headnode.apps.cli.sheet import Sheet
from headnode.apps.cli.words import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the processors of all nodes, or those in some states."""
    wanted = states(asked.text("state"), CORE_STATES)
    names = [node["name"] for node in client.ask("nodes")["nodes"]]
    nodes = [client.ask("node", node=name)["node"] for name in names]
    pairs = [(node, list(zip(core_rows(node), node["cores"], strict=True))) for node in nodes]
    if (job := asked.number("jobid")) is not None:
        pairs = [(node, [each for each in cores if each[0]["Job ID"] == str(job)]) for node, cores in pairs]
    if wanted:
        pairs = [(node, [each for each in cores if each[0]["State"] in wanted]) for node, cores in pairs]
    rows = [row for _, cores in pairs for row, _ in cores]
    data = [
        {"node": node["name"], "state": node["state"], "cores": [core for _, core in cores]}
        for node, cores in pairs
    ]
    out.sheet(Sheet("Node Processor", rows, data, columns=CORE_COLUMNS, widths=CORE_WIDTHS))
    return 0


COMMANDS = (
    Command(
        "listcores",
        "",
        "List the processors and what runs on them",
        run,
        options=(STATE, Option("jobid", "ID", "Only processors that this job holds"), FORMAT),
        example="hn node listcores /state:idle",
    ),
)
