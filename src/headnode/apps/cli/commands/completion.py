"""``hn completion``: what a shell needs to complete our words, and what may stand where the cursor is."""

import signal
from types import MappingProxyType

from headnode.apps.cli.catalogue import MODULES, NOUNS, OLDER_WORDS, CliCommand, find_command
from headnode.apps.cli.options import NODE_STATES, Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.table import printable
from headnode.apps.client.client import Client
from headnode.protocol.state_names import JOB_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Candidate = tuple[str, str]  # what may be typed, and what it is
    Ask = Callable[[Client], Iterable[Candidate]]

TIMEOUT = 2.0  # seconds; a shell that waits for us is stuck
MAX_JOBS_OFFERED = 200  # jobs that are offered

_WORDS: "Mapping[str, Sequence[str]]" = MappingProxyType(
    {
        "format": ("list", "table", "json", "quiet"),
        "priority": ("Lowest", "BelowNormal", "Normal", "AboveNormal", "Highest"),
        "type": ("Basic", "Parametric", "NodePrep", "NodeRelease", "Service"),
        "nodegroupop": ("Intersect", "Union", "Uniform"),
        "sort": ("id", "name", "user", "state", "priority", "submitted", "start", "ended", "elapsed"),
        "awareness": ("reject", "warn", "ignore"),
        "runtime": ("30m", "1h", "1h30m", "1d", "infinite"),
        "since": ("1h", "1d", "1w"),
    }
)
_NODES = frozenset(
    "requestednodes excludednodes onlynodes avoidnodes requirednodes nodes node exclude".split()  # noqa: SIM905
)
_JOBS = frozenset("id job parentjobids afterfailure afterexit afterstart before".split())  # noqa: SIM905
_FLAGS = ("true", "false")


def candidates(line: str, client: Client) -> "list[Candidate]":
    """Return what may complete the last word of `line`, the command line up to the cursor.

    What the head would have to be asked is left out where none answers at once.
    """
    words = line.split()
    current = "" if not words or line[-1:].isspace() else words.pop()
    typed = _without_state(words[1:])
    matching = [
        (printable(word), printable(note))  # names are other people's: none may steer the shell
        for word, note in _at(typed, current, client)
        if word.lower().startswith(current.lower())
    ]
    return list(dict.fromkeys(matching))


def _without_state(words: "list[str]") -> "list[str]":
    if words[:1] == ["--state"]:
        return words[2:]
    return words[1:] if words and words[0].startswith("--state=") else words


def _at(typed: "list[str]", current: str, client: Client) -> "Iterator[Candidate]":
    if not typed:
        yield from NOUNS.items()
        yield from _verbs("")
        return
    noun = typed[0] if typed[0] in NOUNS else ""
    if noun and len(typed) == 1:
        yield from _verbs(noun)
        return
    verb = typed[1] if noun else typed[0]
    if OLDER_WORDS.get((noun, verb), (noun, verb))[1] in MODULES[noun]:
        yield from _of_command(noun, find_command(noun, verb), typed[2 if noun else 1 :], current, client)


def _verbs(noun: str) -> "Iterator[Candidate]":
    for verb in MODULES[noun]:
        yield verb, find_command(noun, verb).summary


def _of_command(
    noun: str, command: "CliCommand", typed: "list[str]", current: str, client: Client
) -> "Iterator[Candidate]":
    options: dict[str, CliOption] = {}
    for option in command.options:
        for name in option.spellings:  # where two options share a spelling, the first has it
            options.setdefault(name, option)
    shorts = {option.short: option for option in command.options if option.short}
    before = typed[-1] if typed else ""
    awaited = options.get(before[2:]) if before.startswith("--") else shorts.get(before[1:2])
    if before.startswith("-") and awaited is not None and awaited.value:
        yield from _listed(current, _values(noun, awaited, client))
    elif current.startswith("-") or (current.startswith("/") and current[1:2].isalpha()):
        yield from _options(noun, options, current, client)
    elif command.positionals != 0:
        yield from _listed(current, _positionals(noun, command.verb, current, client))


def _options(
    noun: str, options: "Mapping[str, CliOption]", current: str, client: Client
) -> "Iterator[Candidate]":
    dash = "--" if current.startswith("-") else "/"
    between = "=" if dash == "--" else ":"
    name, typed, value = current.removeprefix(dash).partition(between)
    if typed and name in options:
        for word, note in _listed(value, _values(noun, options[name], client)):
            yield f"{dash}{name}{between}{word}", note
        return
    for option in dict.fromkeys(options.values()):
        yield f"{dash}{option.name}", option.summary


def _listed(current: str, words: "Iterable[Candidate]") -> "Iterator[Candidate]":
    """Yield the candidates behind what stands before the last comma."""
    kept = current[: current.rfind(",") + 1]
    return ((kept + word, note) for word, note in words)


def _values(noun: str, option: CliOption, client: Client) -> "Iterable[Candidate]":
    name = option.name
    if not option.value:
        return [(word, "") for word in _FLAGS]
    if name == "state":
        return [(word.replace(" ", ""), "") for word in (NODE_STATES if noun == "node" else JOB_STATES)]
    if name in _WORDS:
        return [(word, "") for word in _WORDS[name]]
    for names, ask in ((_NODES, _nodes), (_JOBS, _jobs)):
        if name in names:
            return _asked(client, ask)
    asks = {"jobtemplate": _templates, "reservation": _reservations, "nodegroup": _node_groups}
    return _asked(client, asks[name]) if name in asks else ()


def _positionals(noun: str, verb: str, current: str, client: Client) -> "Iterable[Candidate]":
    if noun == "job" and verb not in ("list", "new", "submit", "shell"):
        return _asked(client, _jobs)
    if noun == "task":
        job = current.partition(".")[0]
        return _asked(
            client, (lambda of: _tasks(of, int(job))) if "." in current and job.isdigit() else _jobs
        )
    if noun == "cluster" and verb == "params":
        return _asked(client, _parameters)
    asks = {"node": _nodes, "reservation": _reservations, "template": _templates}
    if verb == "completion":
        return [(shell, "") for shell in ("bash", "zsh", "fish")]
    return _asked(client, asks[noun]) if noun in asks and verb not in ("list", "new") else ()


def _asked(client: Client, ask: "Ask") -> "list[Candidate]":
    """Return what the head answers; nothing where there is none.  It ends this process when it is slow."""
    from headnode.core.model.errors import HeadnodeError

    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        return list(ask(client))
    except HeadnodeError:
        return []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _jobs(client: Client) -> "Iterator[Candidate]":
    for job in client.ask("jobs", owner="", limit=MAX_JOBS_OFFERED)["jobs"]:
        yield str(job["id"]), f"{job['state']} {job['name'] or job.get('command') or ''}".strip()


def _tasks(client: Client, job: int) -> "Iterator[Candidate]":
    for task in client.ask("tasks", job=job, limit=MAX_JOBS_OFFERED)["tasks"]:
        yield f"{job}.{task['task']}", f"{task['state']} {task['name'] or task['command']}"


def _nodes(client: Client) -> "Iterator[Candidate]":
    for node in client.ask("nodes")["nodes"]:
        yield node["name"], f"{node['state']}, {node['free']} of {node['processors']} processors free"


def _node_groups(client: Client) -> "Iterator[Candidate]":
    for name in sorted({group for node in client.ask("nodes")["nodes"] for group in node["groups"]}):
        yield name, "node group"


def _templates(client: Client) -> "Iterator[Candidate]":
    for template in client.ask("templates")["templates"]:
        yield template["name"], template.get("description") or "job template"


def _reservations(client: Client) -> "Iterator[Candidate]":
    for reservation in client.ask("reservations")["reservations"]:
        yield reservation["name"], "reservation"


def _parameters(client: Client) -> "Iterator[Candidate]":
    for parameter in client.ask("parameters")["parameters"]:
        yield f"{parameter['name']}=", f"now {_shown(parameter['value'])}"


def _shown(value: "Any") -> str:
    return "not set" if value is None else str(value)


CANDIDATES = "candidates"  # what the scripts ask for, with the command line up to the cursor


def run(args: Arguments, client: Client, out: Output) -> int:
    """Print a script for the shell that is named, or what such a script asks for."""
    if args.words[:1] == [CANDIDATES] and len(args.words) == 2:
        for word, note in candidates(args.words[1], client):
            out.text(f"{word}\t{note}" if note else word, {"word": word, "said": note})
        return 0
    shell = args.words[0] if len(args.words) == 1 else ""
    if shell not in SCRIPTS:
        raise usage("no supported shell is named", f"write: hn completion {'|'.join(SCRIPTS)}")
    out.text(SCRIPTS[shell], {"shell": shell, "script": SCRIPTS[shell]})
    return 0


_BASH = r"""_hn() {
  local line=${COMP_LINE:0:COMP_POINT} word before= one
  word=${line##*[[:space:]]}
  case $word in *[=:]*) before=${word%"${word##*[=:]}"} ;; esac  # bash divides words there
  COMPREPLY=()
  while IFS=$'\t' read -r one _; do
    COMPREPLY+=("${one#"$before"}")
  done < <("${COMP_WORDS[0]}" completion candidates "$line" 2>/dev/null)
  case ${COMPREPLY[0]} in *=) compopt -o nospace ;; esac
}
complete -o default -F _hn hn headnode
"""
_ZSH = r"""#compdef hn headnode
_hn() {
  local -a found
  local one said
  while IFS=$'\t' read -r one said; do
    found+=("${one//:/\\:}${said:+:$said}")
  done < <("$words[1]" completion candidates "${(j: :)words[1,CURRENT]}" 2>/dev/null)
  if (( $#found )); then _describe hn found; else _files; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _hn "$@"; else compdef _hn hn headnode; fi
"""
_FISH = r"""function __hn_candidates
  hn completion candidates (commandline -cp | string collect) 2>/dev/null
end
complete -c hn -c headnode -a '(__hn_candidates)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

COMMANDS = (
    CliCommand(
        "completion",
        "bash|zsh|fish",
        "Print a shell script that completes commands, options, ids, nodes and values",
        run,
        example="source <(hn completion bash)",
        notes=(
            "Bash: source <(hn completion bash) in ~/.bashrc. Zsh: source <(hn completion zsh) in ~/.zshrc, "
            "behind compinit. Fish: hn completion fish > ~/.config/fish/completions/hn.fish.",
        ),
        positionals=1,
    ),
)
