"""``hn cluster envs``: the variables that every task of the cluster gets."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import usage
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

PARAMETER = "ClusterEnvironment"


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the variables; set those that are given as NAME=VALUE, remove those given as NAME=."""
    variables = _variables(client)
    changes = dict(word.split("=", 1) for word in asked.words if "=" in word)
    names = [word for word in asked.words if "=" not in word]
    if changes:
        if wrong := next((name for name in changes if not name or ";" in changes[name]), None):
            raise usage(f"variable {wrong!r} cannot be set so", "write NAME=VALUE, without a semicolon")
        variables = {name: value for name, value in (variables | changes).items() if value}
        text = ";".join(f"{name}={value}" for name, value in variables.items())
        client.ask("set_params", values={PARAMETER: text or None})
    shown = {name: value for name, value in variables.items() if not names or name in names}
    if missing := [name for name in names if name not in variables]:
        raise usage(f"the cluster has no variable {missing[0]!r}", f"set it with: {missing[0]}=VALUE")
    if changes and out.for_people:
        return 0
    rows = [{"Name": name, "Value": value} for name, value in shown.items()]
    out.sheet(Sheet("Name", rows, shown, columns=("Name", "Value")))
    return 0


def _variables(client: "Client") -> "dict[str, str]":
    params = client.ask("params")["params"]
    text = next(str(param["value"] or "") for param in params if param["name"] == PARAMETER)
    pairs = (piece.partition("=") for piece in text.split(";") if piece)
    return {name: value for name, _, value in pairs}


COMMANDS = (
    Command(
        "envs",
        "[NAME | NAME=VALUE | NAME=]...",
        "List or set the variables that every task gets; NAME= removes one",
        run,
        options=(FORMAT,),
        example="hn cluster envs LM_LICENSE_FILE=27000@licences SCRATCH=/scratch",
        notes=(
            "Variables of a job or task override those of the cluster.",
            "They are the cluster parameter ClusterEnvironment. Tasks that run already keep theirs.",
        ),
    ),
)
