"""Options of Slurm and PBS that people type out of habit, and what they write here."""

from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping

_PARTITION = "a partition is a node group (--nodegroup NAME) or a job template (--jobtemplate NAME)"
_PROCESSORS = "processors are counted for the whole job: --numprocessors N (-n N)"
_ADVICE: "Mapping[str, tuple[str, str]]" = MappingProxyType(
    {
        "account": ("projectname", "--projectname NAME"),
        "a": ("parametric", "a job array is a sweep: --parametric 1-10; * in the command is the number"),
        "array": ("parametric", "a job array is a sweep: --parametric 1-10; * in the command is the number"),
        "begin": ("holduntil", "--holduntil TIME, or --holduntil 1h for an hour from now"),
        "c": ("numprocessors", _PROCESSORS),
        "chdir": ("workdir", "--workdir DIRECTORY (-D DIRECTORY)"),
        "comment": ("description", "--description TEXT"),
        "constraint": ("feature", "--feature NAME,..."),
        "cpus": ("numprocessors", _PROCESSORS),
        "cpuspertask": ("numprocessors", _PROCESSORS),
        "cwd": ("workdir", "--workdir DIRECTORY (-D DIRECTORY)"),
        "d": ("parentjobids", "see --dependency"),
        "dependency": (
            "parentjobids",
            "afterok is --parentjobids ID, afternotok --afterfailure ID, afterany --afterexit ID, "
            "after --afterstart ID",
        ),
        "error": ("stderr", "--stderr FILE (-e FILE)"),
        "exclude": ("excludednodes", "--excludednodes NODE,... (-x NODE,...)"),
        "export": ("env", "--env NAME=VALUE for each variable"),
        "cpuspergpu": ("corespergpu", "--corespergpu N"),
        "gpus": ("numgpus", "GPUs are --numgpus N (-G N), their model --feature NAME"),
        "gpuspernode": ("distribution", "GPUs are --numgpus N (-G N), with --distribution per-node=N"),
        "gres": (
            "numgpus",
            "GPUs are --numgpus N (-G N); other counted things are --license NAME:N, of the whole cluster",
        ),
        "I": ("interactive", "for a terminal on a node: hn job shell"),
        "input": ("stdin", "--stdin FILE (-i FILE)"),
        "l": (
            "runtime",
            "nodes are --numnodes N, processors --numprocessors N, walltime --runtime 1h30m, memory "
            "--memorypernode MB",
        ),
        "licenses": ("license", "--license NAME:N"),
        "mailtype": ("notifyonstart", "--notifyonstart and --notifyoncompletion"),
        "mailuser": ("emailaddress", "--emailaddress ADDRESS"),
        "m": ("emailaddress", "--emailaddress ADDRESS with --notifyonstart or --notifyoncompletion"),
        "mem": (
            "memorypernode",
            "nodes with so much memory are chosen by --memorypernode MB; a limit for each processor is "
            "--estimatedprocessmemory MB",
        ),
        "mempercpu": ("estimatedprocessmemory", "--estimatedprocessmemory MB"),
        "nice": ("priority", "--priority BelowNormal, or a number from 0 to 4000"),
        "nodelist": ("requestednodes", "--requestednodes NODE,... (-w NODE,...)"),
        "nodes": ("numnodes", "--numnodes N[-M] (-N N)"),
        "norequeue": ("rerunnable", "--rerunnable=false"),
        "ntasks": ("numprocessors", "--numprocessors N[-M] (-n N)"),
        "ntaskspernode": ("distribution", "--distribution per-node=N"),
        "output": ("stdout", "--stdout FILE (-o FILE)"),
        "p": ("nodegroup", _PARTITION),
        "parsable": ("quiet", "--quiet prints the id alone"),
        "partition": ("nodegroup", _PARTITION),
        "pe": ("numprocessors", "--numprocessors N[-M] (-n N)"),
        "qos": ("jobtemplate", "--jobtemplate NAME"),
        "queue": ("jobtemplate", "a queue is a job template (--jobtemplate NAME) or a node group"),
        "requeue": ("rerunnable", "--rerunnable; tasks of the command line are rerunnable by default"),
        "testonly": ("dryrun", "--dry-run"),
        "time": ("runtime", "--runtime 1h30m (-t 1h30m)"),
        "uid": ("user", "--user NAME"),
        "V": ("envall", "--env-all, or --env NAME for one variable"),
        "walltime": ("runtime", "--runtime 1h30m (-t 1h30m)"),
        "wrap": ("parametric", "the command line follows the options: hn job submit 'sleep 60; date'"),
        "start": ("sort", "the expected start of each queued job is in the list"),
        "me": ("user", "your own jobs are listed unless --user or --all is given"),
        "states": ("limit", "--state NAME,..."),
        "j": ("group", "hn job view ID shows one job"),
        "jobs": ("group", "hn job view ID shows one job"),
        "starttime": ("since", "--since 2026-01-31, or --since 1d"),
        "endtime": ("until", "--until 2026-01-31, or --until 1d"),
    }
)  # fmt: skip
"""Name without hyphens -> the option that a command must have for the advice to be right, and the advice."""
_OF_RESERVATIONS: "Mapping[str, tuple[str, str]]" = MappingProxyType(
    {
        "start": ("from", "--from 2030-01-31T18:00, or --from 1h for an hour from now"),
        "starttime": ("from", "--from 2030-01-31T18:00, or --from 1h for an hour from now"),
        "endtime": ("to", "--to 2030-01-31T20:00"),
        "duration": ("for", "--for 2h"),
        "nodecnt": ("count", "--count N"),
        "accounts": ("projects", "--projects NAME,..."),
    }
)
"""The same for the options of reservations, some of which have names that mean something else in lists."""


def advice_on(spelling: str, known: "Container[str]") -> str:
    """Return what to write in place of an option of another scheduler; "" when there is no advice.

    `known`: the names of the command's own options.
    """
    name = spelling.lstrip("/-").replace("-", "")
    name = name if len(name) == 1 else name.lower()
    rows = [row for table in (_ADVICE, _OF_RESERVATIONS) if (row := table.get(name)) and row[0] in known]
    if not rows:
        return ""
    advice = rows[0][1]
    if name == "d":
        return advice_on("dependency", known)
    return f"write {advice}" if advice.startswith("--") else advice
