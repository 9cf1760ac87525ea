"""``hn completion``: what a shell needs to complete our words."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", _client: "Client", out: "Output") -> int:
    """Print a script for the shell that is named."""
    if asked.words != ["bash"]:
        raise usage("no shell we know is named", "write: hn completion bash")
    script = bash_script()
    out.text(script, {"shell": "bash", "script": script})
    return 0


def bash_script() -> str:
    """Return a bash script that completes nouns, verbs and options, all known in advance."""
    from headnode.apps.cli.catalogue import NOUNS, PLACES, every_command

    cases = [f"    '{noun}') words='{' '.join(PLACES[noun])}' ;;" for noun in NOUNS]
    cases.append(f"    '') words='{' '.join([*NOUNS, *PLACES['']])}' ;;")
    for noun, command in every_command():
        options = " ".join(sorted({f"--{option.name}" for option in command.options}))
        cases.append(f"    '{f'{noun} {command.verb}'.strip()}') words='{options}' ;;")
    nouns = "|".join(f"{noun}\\ *\\ *" for noun in NOUNS)
    alone = "|".join(f"{verb}\\ *" for verb in PLACES[""])
    script = _SCRIPT.replace("@NOUNS@", nouns).replace("@ALONE@", alone)
    return script.replace("@CASES@", "\n".join(cases))


_SCRIPT = """\
_hn() {
  local word=${COMP_WORDS[COMP_CWORD]} before words=
  before=${COMP_WORDS[*]:1:COMP_CWORD-1}
  case $before in
    @NOUNS@) before="${COMP_WORDS[1]} ${COMP_WORDS[2]}" ;;
    @ALONE@) before=${COMP_WORDS[1]} ;;
  esac
  case $before in
@CASES@
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _hn hn headnode
"""

COMMANDS = (
    Command(
        "completion",
        "bash",
        "Print a script that lets the shell complete commands and options",
        run,
        example="source <(hn completion bash)",
    ),
)
