"""``condor_status``: list the nodes, each as a slot.

Source:  HTCondor 24, condor_status(1); "Machine ClassAd Attributes".
"""

import time
from itertools import islice

from headnode.apps.cli.batch_programs.words import acted_on, ignored, refused
from headnode.apps.cli.condor_programs.ad_output import OUTPUTS, run_time, show, shown
from headnode.apps.cli.condor_programs.options import read_line
from headnode.apps.cli.condor_programs.selection import holds, parsed
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from headnode.core.formats.condor.evaluation import Value

OPTIONS = {
    **acted_on("constraint available! claimed! total! startd! wide! nowide! print-format pr " + OUTPUTS),
    **ignored("compact! expert! debug! direct", "a node is one slot here"),
    **ignored("name pool addr", "hn's --scheduler and hn login choose the head"),
    **refused(
        "schedd! submitters! master! negotiator! collector! any! defrag! grid! ckptsrvr! storage! "
        "license! generic! cod! accounting! hadoop!",
        "there are no such daemons here; see: hn cluster view",
    ),
    **refused(
        "server! state! run! vm! java! cpus! memory! gpus! sort statistics subsystem", "use -autoformat"
    ),
    **refused("target", "use -autoformat or -format"),
}
_OWNED = ("Paused", "Draining", "Drained", "Pending", "Unreachable")
_STATES = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drained")
_SYSTEMS = {"linux": "LINUX"}


class MachineAd:
    """The attributes of a node."""

    def __init__(self, node: "dict[str, Any]") -> None:
        self.node = node

    def __call__(self, name: str) -> "Value":
        """Return an attribute by its name in lower case; a feature of the node is true."""
        known = _ATTRIBUTES.get(name)
        if known is not None:
            return known[1](self.node)
        return True if name in (feature.lower() for feature in self.node["features"]) else None

    def items(self) -> "Iterator[tuple[str, Value]]":
        """Yield all attributes, by name."""
        values = {spelling: attribute(self.node) for spelling, attribute in _ATTRIBUTES.values()}
        values |= {feature: True for feature in self.node["features"] if feature.isidentifier()}
        yield from (
            (name, values[name]) for name in sorted(values, key=str.lower) if values[name] is not None
        )


def _state(node: "dict[str, Any]") -> str:
    if node["used"]:
        return "Claimed"
    return "Drained" if node["state"] == "Drained" else "Owner" if node["state"] in _OWNED else "Unclaimed"


def _activity(node: "dict[str, Any]") -> str:
    return "Busy" if node["used"] else "Idle"


def _system(node: "dict[str, Any]") -> str:
    system = str(node["system"])
    return _SYSTEMS.get(system.lower(), system.upper())


def _architecture(node: "dict[str, Any]") -> str:
    return (
        str(node["architecture"]).upper()
        if node["architecture"].startswith("x86")
        else str(node["architecture"])
    )


_ATTRIBUTES: "Mapping[str, tuple[str, Callable[[dict[str, Any]], Value]]]" = {
    name.lower(): (name, shown_as)
    for name, shown_as in (
        ("MyType", lambda _: "Machine"),
        ("Name", lambda node: f"slot1@{node['name']}"),
        ("Machine", lambda node: str(node["name"])),
        ("SlotID", lambda _: 1),
        ("OpSys", _system),
        ("Arch", _architecture),
        ("State", _state),
        ("Activity", _activity),
        ("Cpus", lambda node: int(node["free"])),
        ("TotalCpus", lambda node: int(node["processors"])),
        ("TotalSlotCpus", lambda node: int(node["processors"])),
        ("DetectedCpus", lambda node: int(node["processors"])),
        ("DetectedPhysicalCpus", lambda node: node["sockets"] * node["cores_per_socket"] or None),
        ("Memory", lambda node: int(node["memory"])),
        ("TotalMemory", lambda node: int(node["memory"])),
        ("TotalSlotMemory", lambda node: int(node["memory"])),
        ("DetectedMemory", lambda node: int(node["memory"])),
        ("Disk", lambda node: int(node["disk"]) * 1024),
        ("TotalDisk", lambda node: int(node["disk"]) * 1024),
        ("GPUs", lambda node: int(node["gpus"]) - int(node["gpus_held"])),
        ("TotalGPUs", lambda node: int(node["gpus"])),
        (
            "NumDynamicSlots",
            lambda node: node["jobs"] if isinstance(node["jobs"], int) else len(node["jobs"]),
        ),
        ("EnteredCurrentState", lambda node: int(node["since"])),
        ("EnteredCurrentActivity", lambda node: int(node["since"])),
        ("Offline", lambda node: True if node["state"] == "Unreachable" else None),
    )
}


def run(argv: "Sequence[str]", client: Client) -> int:
    """List nodes."""
    args = read_line("condor_status", argv, OPTIONS)
    constraints = [parsed(text) for text in args.values("constraint")]
    names = {word.rpartition("@")[2] for word in args.words}
    nodes = [node for node in client.ask("nodes")["nodes"] if not names or node["name"] in names]
    now = time.time()
    ads = [ad for ad in map(MachineAd, nodes) if all(holds(each, ad, now) for each in constraints)]
    if args.has("available"):
        ads = [ad for ad in ads if ad.node["state"] == "Ready" and ad.node["free"]]
    if args.has("claimed"):
        ads = [ad for ad in ads if ad.node["used"]]
    ads = list(islice(ads, args.number("limit")))
    if shown(args):
        show(args, ads, ("Name",))
        return 0
    args.merge("pr", "print-format")
    if (path := args.text("print-format")) is not None:
        from headnode.apps.cli.condor_programs.print_format import read_print_format

        read_print_format(path).show(ads)
        return 0
    if ads and not args.has("total"):
        _show_table(ads, now)
    if ads:
        _show_totals(ads)
    return 0


def _show_table(ads: "Sequence[MachineAd]", now: float) -> None:
    width = max(18, *(len(str(ad("name"))) for ad in ads))
    print(f"{'Name':<{width}} OpSys      Arch   State     Activity LoadAv Mem   ActvtyTime\n")
    for ad in ads:
        node = ad.node
        load = node["used"] / max(1, node["processors"])
        print(
            f"{ad('name'):<{width}} {_system(node):<10} {_architecture(node):<6} {_state(node):<9} "
            f"{_activity(node):<8} {load:6.3f} {node['memory']:>5} {run_time(now - node['since']):>11}"
        )
    print()


def _show_totals(ads: "Sequence[MachineAd]") -> None:
    kinds: dict[str, dict[str, int]] = {}
    for ad in ads:
        for kind in (f"{_architecture(ad.node)}/{_system(ad.node)}", "Total"):
            counts = kinds.setdefault(kind, dict.fromkeys(_STATES, 0))
            counts[_state(ad.node)] += 1
    kinds["Total"] = kinds.pop("Total")
    width = max(14, *map(len, kinds))
    print(f"{'':<{width}} Machines Owner Claimed Unclaimed Matched Preempting  Drain\n")
    for kind, counts in kinds.items():
        row = [counts[state] for state in _STATES]
        print("{:>{w}} {:>8} {:>5} {:>7} {:>9} {:>7} {:>10} {:>6}\n".format(kind, sum(row), *row, w=width))
