"""Reservations of nodes as Slurm shows and makes them: ``scontrol show reservation``, ``sinfo -T``.

Source:  Slurm 22.05, scontrol(1), "SPECIFICATIONS FOR RESERVATION COMMANDS"; sinfo(1), ``--reservation``.
"""

import time

from headnode.apps.cli.batch_programs.changes import run_time, unknown_parameter
from headnode.apps.cli.batch_programs.rows import folded_nodes
from headnode.apps.cli.batch_programs.values import ALL_NODES, clock, date
from headnode.apps.cli.batch_programs.words import ProgramRefusal, moment
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    HeadAnswer = Mapping[str, Any]

NONE = "No reservations in the system\n"
_STATES = {"Active": "ACTIVE", "Planned": "INACTIVE"}


def reservation_lines(reservation: "HeadAnswer", nodes: "Sequence[HeadAnswer]") -> "list[str]":
    """Return what ``scontrol show reservation`` prints of one; `nodes` are those of the cluster."""
    own = [node for node in nodes if node["name"] in reservation["nodes"]]
    cores = sum(node["processors"] for node in own)
    admitted = [",".join(reservation[kind]) or "(null)" for kind in ("users", "groups", "projects")]
    return [
        f"ReservationName={reservation['name']} StartTime={date(reservation['start'])} "
        f"EndTime={date(reservation['end'])} "
        f"Duration={_duration(reservation)}",
        f"Nodes={_folded(reservation)} "
        f"NodeCnt={len(reservation['nodes']) or reservation['count']} CoreCnt={cores} "
        f"Features={'&'.join(reservation['features']) or '(null)'} "
        f"PartitionName={','.join(reservation['node_groups']) or '(null)'} "
        f"Flags={_flags(reservation, len(nodes))}",
        f"TRES=cpu={cores}",
        f"Users={admitted[0]} Groups={admitted[1]} Accounts={admitted[2]} Licenses=(null) "
        f"State={_STATES[reservation['state']]} BurstBuffer=(null) Watts=n/a",
        "MaxStartDelay=(null)",
        *([f"Comment={reservation['reason']}"] if reservation["reason"] else []),
    ]


def reservation_table(reservations: "Sequence[HeadAnswer]", *, heading: bool) -> str:
    """Return what ``sinfo -T`` prints."""
    if not reservations:
        return NONE
    width = max(len("RESV_NAME"), *(len(each["name"]) for each in reservations))
    rows = [
        (
            each["name"],
            _STATES[each["state"]],
            date(each["start"]),
            date(each["end"]),
            _duration(each),
            _folded(each),
        )
        for each in reservations
    ]
    titles = [("RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST")] if heading else []
    return "".join(
        f"{name:<{width}}  {state:>8}  {start:>19}  {end:>19}  {length:>11}  {nodes}\n"
        for name, state, start, end, length, nodes in [*titles, *rows]
    )


def _duration(reservation: "HeadAnswer") -> str:
    return clock(reservation["end"] - reservation["start"], hours=True)


def _folded(reservation: "HeadAnswer") -> str:
    return folded_nodes(reservation["nodes"])


def _flags(reservation: "HeadAnswer", nodes: int) -> str:
    """Return its flags in the order of Slurm."""
    flags = {
        "MAINT": reservation["maintenance"],
        "SPEC_NODES": not reservation["count"],
        "ALL_NODES": not reservation["count"] and len(reservation["nodes"]) == nodes,
    }
    return ",".join(name for name, is_set in flags.items() if is_set)


# ---------------------------------------------------------------- made, changed and deleted


def create_reservation(parameters: "dict[str, str]", client: Client) -> int:
    """Carry out ``scontrol create reservation=NAME ...``."""
    name = parameters.pop("reservationname", "") or parameters.pop("reservation", "") or _free_name(client)
    fields = _fields(parameters, client)
    if "end" not in fields and "duration" not in fields:
        raise ProgramRefusal("An end time or duration must be given.  No reservation created.")
    _asked(client, "create_reservation", "Error creating the reservation", name=name, **fields)
    print(f"Reservation created: {name}")
    return 0


def update_reservation(parameters: "dict[str, str]", client: Client) -> int:
    """Carry out ``scontrol update reservationname=NAME ...``."""
    name = parameters.pop("reservationname", "") or parameters.pop("reservation", "")
    failures = ("Error updating the reservation", "slurm_update error")
    _asked(client, "modify_reservation", *failures, name=name, **_fields(parameters, client))
    print("Reservation updated.")
    return 0


def delete_reservation(word: str, client: Client) -> int:
    """Carry out ``scontrol delete reservationname=NAME``."""
    key, _, name = word.partition("=")
    if key.lower() not in ("reservationname", "reservation"):
        raise ProgramRefusal(f"Invalid option for delete command: {word}", prefix="bare")
    _asked(client, "cancel_reservation", f"delete_reservation {word}", name=name)
    return 0


def _asked(client: Client, verb: str, *failures: str, **fields: "Any") -> None:
    from headnode.core.model.errors import HeadnodeError

    try:
        client.ask(verb, **fields)
    except HeadnodeError as refusal:
        known = {"no-such-reservation": "Requested reservation is invalid"}
        message = known.get(refusal.code, refusal.what)
        raise ProgramRefusal(*(f"{failure}: {message}" for failure in failures), prefix="bare") from None


def _free_name(client: Client) -> str:
    """Return the name of a reservation that is given none: the user and a number, as in Slurm."""
    from headnode.apps.cli.batch_programs.squeue import own_user

    taken = {each["name"] for each in client.ask("reservations")["reservations"]}
    return next(
        name for number in range(1, len(taken) + 2) if (name := f"{own_user()}_{number}") not in taken
    )


def _names(text: str) -> "list[str]":
    if "=" in text or any(name.startswith("-") for name in text.split(",")):
        raise unknown_parameter(text)
    return [name for name in text.split(",") if name]


def _seconds(text: str) -> float:
    limit = run_time(text)
    if limit is None:
        raise ProgramRefusal(f"Invalid Duration: {text}: a reservation needs an end", prefix="bare")
    return limit


def _time(text: str) -> float:
    return moment(text, time.time(), ahead=True)


_FIELDS: "Mapping[str, tuple[str, Callable[[str], Any]]]" = {
    "starttime": ("start", _time),
    "endtime": ("end", _time),
    "duration": ("duration", _seconds),
    "nodes": ("nodes", str),
    "nodecnt": ("count", int),
    "users": ("users", _names),
    "user": ("users", _names),
    "groups": ("groups", _names),
    "accounts": ("projects", _names),
    "features": ("features", lambda text: [name for name in text.split("&") if name]),
    "partitionname": ("node_groups", lambda text: [] if text == ALL_NODES else [text]),
    "partition": ("node_groups", lambda text: [] if text == ALL_NODES else [text]),
    "comment": ("reason", str),
}
_FLAGS_KEPT = ("spec_nodes", "maint")  # nodes by name are always these; without users it is for maintenance


def _fields(parameters: "Mapping[str, str]", client: Client) -> "dict[str, Any]":
    """Return the fields of the request.

    Raises:  ProgramRefusal for what has no meaning here.
    """
    found: dict[str, Any] = {}
    for key, value in parameters.items():
        if key == "flags":
            for flag in value.lower().split(","):
                if flag == "ignore_jobs":
                    found["ignore_running"] = True
                elif flag not in _FLAGS_KEPT:
                    raise unknown_parameter(f"flags={flag}")
            continue
        if key not in _FIELDS:
            raise unknown_parameter(f"{key}={value}")
        field, read = _FIELDS[key]
        try:
            found[field] = read(value)
        except ValueError:
            raise ProgramRefusal(f"Invalid {key}: {value}", prefix="bare") from None
    if str(found.get("nodes", "")).upper() == "ALL":
        found["nodes"] = ",".join(node["name"] for node in client.ask("nodes")["nodes"])
    return found
