"""Turn a slurm.conf into the commands that set up a cluster alike, and name what is not carried over.

Source:  Slurm 22.05, slurm.conf(5).
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headnode.core.batch.slurm_conf_keys import (
    ELSEWHERE,
    WITHOUT_MEANING,
    Global,
    parameters_of,
)
from headnode.core.formats.batch.slurm import written_seconds
from headnode.core.formats.text.toml_text import toml_value
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import folded_names
from headnode.core.model.quantities import FOREVER, Seconds, format_time_limit
from headnode.core.model.topology import items_of, names_in

_PAIR: Final = re.compile(r'(?<!\w)([A-Za-z]\w*+)\+?=("[^"]*"|\S*)')
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # as hn node invite takes them
_SETS: Final = ("nodename", "partitionname", "nodeset", "downnodes", "switchname", "frontendname")
_TIMES: Final = ("maxtime", "defaulttime")
_OF_NODES: Final = {
    "weight": "a job orders nodes by /orderby",
    "corespeccount": "start the agent with fewer processors: hn agent --processors N",
    "cpuspeclist": "start the agent with fewer processors: taskset -c LIST hn agent",
    "memspeclimit": "start the agent with less memory: hn agent --memory AMOUNT",
}
"""Keys of nodes that their agents do not find, and what there is in their place."""
_SHOWN = 60  # characters of a value that a note repeats
_MOST_NAMES = 2_000_000  # of nodes in all lines together; 10,000 nodes in 100 partitions are a million


class ConfLine(NamedTuple):
    """A line of settings: keys in lower case, in their order."""

    number: int  # from 1
    settings: dict[str, str]


@dataclass(slots=True)
class Partition:
    """A partition, and what its line sets."""

    name: str
    line: int
    settings: dict[str, str]
    nodes: list[str] = field(default_factory=list)

    def span(self, key: str) -> Seconds | None:
        """Return a time limit in seconds; None if it is unlimited or not set."""
        seconds = written_seconds(self.settings.get(key, "UNLIMITED"))
        return None if seconds in (None, FOREVER) else seconds


@dataclass(slots=True)
class _Conf:
    settings: Global = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    names: int = 0  # of nodes, in all lines so far


def read_lines(text: str) -> Iterator[ConfLine]:
    """Yield the lines with settings; a line that ends with a backslash goes on.

    >>> [line.settings for line in read_lines('ClusterName=lab # here')]
    [{'clustername': 'lab'}]

    Raises:  BadRequest ``slurm-conf`` with the line.
    """
    begun, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        _refuse_hidden(line, number)
        first = first if begun else number
        begun += line.removesuffix("\\") + " " if line.endswith("\\") else line
        if line.endswith("\\") or not begun.strip():
            continue
        whole, begun = begun.strip(), ""
        if whole.lower().startswith("include"):
            yield ConfLine(first, {"include": whole[7:].strip()})
            continue
        pairs = _PAIR.findall(whole)
        if not pairs:
            raise BadRequest(
                code="slurm-conf",
                what=f"line {first} is not understood: {whole[:_SHOWN]!r}",
                fix="name a slurm.conf, with lines such as ClusterName=lab",
            )
        yield ConfLine(first, {key.lower(): value.strip('"') for key, value in pairs})


def _refuse_hidden(line: str, number: int) -> None:
    """Refuse characters that a terminal does not show: the script is read there before it is run as root."""
    if not line.replace("\t", " ").isprintable():
        hidden = next(sign for sign in line if not sign.isprintable() and sign != "\t")
        raise BadRequest(
            code="slurm-conf",
            what=f"line {number} has the character U+{ord(hidden):04X}, which terminals do not show",
            fix="remove it",
        )


def setup_script(text: str) -> str:
    """Return a shell script with the commands of `hn`; comments say what is not carried over.

    Every value is quoted for the shell.
    Raises:  BadRequest ``slurm-conf`` for text that is no slurm.conf, ``topology`` for a set of nodes.
    """
    conf = _Conf()
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    for line in read_lines(text):
        _take(conf, line, defaults)
    if not (conf.settings or conf.nodes or conf.partitions):
        raise BadRequest(code="slurm-conf", what="the file has no settings", fix="name a slurm.conf")
    _place_nodes(conf)
    blocks = (_start(conf), _parameters(conf), _nodes(conf), _templates(conf), _left(conf))
    return "\n".join("\n".join(block) + "\n" for block in blocks if block)


def _take(conf: _Conf, line: ConfLine, defaults: dict[str, dict[str, str]]) -> None:
    """Note what a line sets."""
    kind = next((key for key in _SETS if key in line.settings), "")
    name = line.settings.get(kind, "")
    if kind in defaults and name.upper() == "DEFAULT":
        defaults[kind] |= {key: value for key, value in line.settings.items() if key != kind}
    elif kind == "nodename":
        _take_nodes(conf, name, line, defaults[kind] | line.settings)
    elif kind == "partitionname":
        if not _NAME.fullmatch(name):
            conf.notes.append(f"line {line.number}: {name[:_SHOWN]!r} cannot be the name of a node group")
            return
        conf.partitions[name] = Partition(name, line.number, defaults[kind] | line.settings)
    elif kind == "nodeset":
        conf.sets[name] = line.settings.get("nodes", "")
    elif kind or "include" in line.settings:
        value = next(iter(line.settings.values()))
        conf.notes.append(f"line {line.number}: {kind or 'include'} {value[:_SHOWN]} is not read")
    else:
        heads = line.settings.pop("slurmctldhost", "")
        conf.heads += [heads.partition("(")[0]] if heads else []
        conf.settings |= {key: (line.number, value) for key, value in line.settings.items()}


def _take_nodes(conf: _Conf, names: str, line: ConfLine, settings: dict[str, str]) -> None:
    wrong = []
    for node in _counted(conf, names_in(names, f"line {line.number}"), line.number):
        if _HOST.fullmatch(node):
            conf.nodes[node] = settings
        else:
            wrong.append(node)
    if wrong:
        conf.notes.append(f"line {line.number}: {wrong[0][:_SHOWN]!r} cannot be the name of a node")


def _counted(conf: _Conf, names: Iterable[str], number: int) -> Iterator[str]:
    """Yield names of nodes, up to a limit for the whole file; `number` is that of the line.

    Raises:  BadRequest ``slurm-conf``.
    """
    for name in names:
        conf.names += 1
        if conf.names > _MOST_NAMES:
            raise BadRequest(
                code="slurm-conf",
                what=f"the lines up to {number} have more than {_MOST_NAMES:,} names of nodes",
                fix="leave partitions out, and set their node groups with hn node set",
            )
        yield name


def _place_nodes(conf: _Conf) -> None:
    """Find the nodes of each partition; those that no line defines are not in it."""
    for partition in conf.partitions.values():
        for item in items_of(partition.settings.get("nodes", "")):
            every = item.upper() == "ALL"
            found = conf.nodes if every else names_in(conf.sets.get(item, item), f"line {partition.line}")
            counted = _counted(conf, found, partition.line)
            partition.nodes += [name for name in counted if name in conf.nodes]


def _start(conf: _Conf) -> list[str]:
    name = conf.settings.pop("clustername", (0, "lab"))[1]
    head, *others = conf.heads or ["HOST"]
    listen = shlex.join(["hn", "up", "--name", name, "--nodes", "0", "--listen", head])
    lines = ["# Read this script, correct it, and run it as root on the head node, a part at a time."]
    lines += ["", "# The head", listen]
    lines += [
        f"# a standby head on {_plain(other)}: hn standby invite, and the line there" for other in others
    ]
    return lines


def _parameters(conf: _Conf) -> list[str]:
    values, notes = parameters_of(conf.settings)
    conf.notes += notes
    groups = ",".join(conf.partitions)
    values |= {"NodeGroups": groups} if groups else {}
    lines = [f"hn cluster params {shlex.quote(f'{name}={value}')}" for name, value in values.items()]
    return ["# Parameters", *lines] if lines else []


def _nodes(conf: _Conf) -> list[str]:
    """Return the invitation of all nodes, and the groups and features of those that are alike."""
    alike: dict[tuple[str, str], list[str]] = {}
    special: dict[tuple[str, str], list[str]] = {}
    groups_of: dict[str, list[str]] = {}
    for name, partition in conf.partitions.items():
        for node in dict.fromkeys(partition.nodes):
            groups_of.setdefault(node, []).append(name)
    for node, settings in conf.nodes.items():
        groups = ",".join(groups_of.get(node, ()))
        features = settings.get("features", settings.get("feature", ""))
        alike.setdefault((groups, features), []).append(node)
        for key in settings.keys() & _OF_NODES.keys():
            special.setdefault((key, settings[key]), []).append(node)
    for (key, value), nodes in special.items():
        where = ",".join(folded_names(nodes))
        conf.notes.append(f"{key}={value[:_SHOWN]} of {where}: {_OF_NODES[key]}")
    if not conf.nodes:
        return []
    every = ",".join(folded_names(conf.nodes))
    lines = ["# Nodes: type the line that this prints on each of them"]
    lines.append(f"hn node invite --approve --for {shlex.quote(every)}")
    lines.append(
        "# When they have joined. Without --features a node has those that its agent finds, such as GPUs"
    )
    for (groups, features), nodes in alike.items():
        words = ["hn", "node", "set", ",".join(folded_names(nodes))]
        words += ["--groups", groups] if groups else []
        words += ["--features", features] if features else []
        lines += [shlex.join(words)] if len(words) > 4 else []
    return lines


def _templates(conf: _Conf) -> list[str]:
    """Return a job template for each partition with rules, and the one of jobs that name none."""
    lines: list[str] = []
    for partition in conf.partitions.values():
        _note_partition(conf, partition)
        rules = _rules(partition)
        if rules:
            groups = ["[node_groups]", f"default = [{toml_value(partition.name)}]"]
            groups.append(f"required = [{toml_value(partition.name)}]")
            lines += _template(partition.name, [*rules, *groups])
    standard = next((each for each in conf.partitions.values() if _says(each, "default", "YES")), None)
    longest = [each.span("maxtime") for each in conf.partitions.values()]
    rules = []
    if standard is not None and "default" not in map(str.casefold, conf.partitions):
        most = max(filter(None, longest), default=None) if all(longest) else None
        rules = [*_run_time(standard.span("defaulttime"), most), "[node_groups]"]
        rules.append(f"default = [{toml_value(standard.name)}]")
        lines += _template("Default", rules)
    if not lines:
        return []
    about = (
        "# Job templates. A job names one by --jobtemplate, or --qos of sbatch; Default is that of all others"
    )
    return [about, *lines]


def _rules(partition: Partition) -> list[str]:
    """Return the rules of a template for the jobs of a partition."""
    users = partition.settings.get("allowgroups", "ALL")
    allowed = [] if users.upper() == "ALL" else [f"groups = [{', '.join(map(toml_value, users.split(',')))}]"]
    rules = _run_time(partition.span("defaulttime"), partition.span("maxtime"))
    if _says(partition, "oversubscribe", "EXCLUSIVE"):
        rules += ["[exclusive]", "default = true", "read_only = true"]
    for key, rule, bound in (("minnodes", "minimum_nodes", "least"), ("maxnodes", "maximum_nodes", "most")):
        value = partition.settings.get(key, "")
        rules += [f"[{rule}]", f"{bound} = {int(value)}"] if re.fullmatch(r"[1-9][0-9]{0,6}", value) else []
    return [*allowed, *rules]


def _run_time(default: Seconds | None, most: Seconds | None) -> list[str]:
    bounds = (("default", default or most), ("most", most))
    rules = [f"{key} = {toml_value(format_time_limit(value))}" for key, value in bounds if value]
    return ["[run_time]", *rules] if rules else []


def _template(name: str, rules: list[str]) -> list[str]:
    file = f"{name}.toml"
    return [
        f"cat > {file} <<'END'",
        f"name = {toml_value(name)}",
        *rules,
        "END",
        f"hn template import {file}",
    ]


def _note_partition(conf: _Conf, partition: Partition) -> None:
    """Note what a partition says that templates and groups do not."""
    known = {"partitionname", "nodes", "default", "maxtime", "defaulttime", "allowgroups"}
    known |= {"oversubscribe", "minnodes", "maxnodes"}
    for key in _TIMES:
        if written_seconds(partition.settings.get(key, "0")) is None:
            conf.notes.append(f"line {partition.line}: {key} of partition {partition.name} is not a time")
    for key, value in partition.settings.items():
        if key not in known and (key, value.upper()) != ("state", "UP"):
            what = f"{key}={value[:_SHOWN]} of partition {partition.name}"
            conf.notes.append(f"line {partition.line}: {what}: {ELSEWHERE.get(key, 'is not read')}")
    if _rules(partition):
        conf.notes.append(
            f"partition {partition.name}: its limits apply to jobs that name the template; to apply them to "
            "all jobs of the node group, select the template by a submission filter (docs/filters.md)"
        )


def _left(conf: _Conf) -> list[str]:
    """Return comments about what is not carried over, and about what nobody needs here."""
    unread = {key: place for key, place in conf.settings.items() if key not in WITHOUT_MEANING}
    notes = [*conf.notes, *(f"line {at}: {key}={value[:_SHOWN]}" for key, (at, value) in unread.items())]
    needless = sorted(conf.settings.keys() & WITHOUT_MEANING)
    limits = (
        "limits and shares of users and accounts are in slurmdbd: sacctmgr show assoc, sacctmgr show qos; "
    )
    lines = ["# Not carried over", f"#   {limits}see docs/from-slurm.md"]
    lines += [f"#   {_plain(note)}" for note in notes]
    lines += [f"# Not needed here: {', '.join(needless)}"] if needless else []
    return lines


def _says(partition: Partition, key: str, value: str) -> bool:
    return partition.settings.get(key, "").upper() == value


def _plain(text: str) -> str:
    """Return a text for a comment: one line, without control characters."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
