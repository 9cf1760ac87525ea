"""The reference page of the programs of other schedulers, printed from the tables of their options."""

import sys
from collections.abc import Iterator, Mapping

from headnode.apps.cli.batch_programs.program_help import acted_on_by, purpose_of, spelled_by
from headnode.apps.cli.batch_programs.programs import options_of
from headnode.apps.cli.batch_programs.words import ProgramOption
from headnode.apps.cli.catalogue import BATCH_PROGRAMS, OF_ONE, PBS
from headnode.apps.cli.condor_programs.options import NOT_THERE
from headnode.apps.cli.hpc_pack_programs import PROGRAMS as HPC_PACK

HEAD = """# The options of the programs of other schedulers

This page is printed from the tables by which the programs read their command lines; `make bless` prints it
anew. What they do is on the pages [Slurm, PBS, Grid Engine and LSF](../slurm-commands.md),
[HTCondor](../condor-commands.md) and [HPC Pack](../hpc-pack.md). A value follows where `=...` is written, and
can be left out in `[=...]`; options of one dash, and those of HPC Pack, do not show theirs. What the options
of `sbatch`, `qsub` and `bsub` mean for a job, and which of them are lost or refused, is in
[batch scripts](../batch-scripts.md).
"""
SYSTEMS = {"pbs": "PBS", "gridengine": "Grid Engine"}


def reference() -> str:
    """Return the page."""
    return HEAD + "".join([*(_program(*one) for one in _programs()), *map(_hpc_pack_program, HPC_PACK)])


def _programs() -> Iterator[tuple[str, str]]:
    """Yield each program with the system whose it is, if several have the name."""
    for program in BATCH_PROGRAMS:
        if program in PBS:
            yield from ((program, system) for system in SYSTEMS)
        elif program not in NOT_THERE:
            yield program, OF_ONE.get(program, "")


def _program(program: str, system: str) -> str:
    usage, purpose = purpose_of(program)
    table = options_of(program, system)
    title = f"`{program}` of {SYSTEMS[system]}" if program in PBS else f"`{program}`"
    known = " ".join(f"`{spelled_by(program, name, one)}`" for name, one in acted_on_by(table).items())
    text = f"\n## {title}\n\n`{f'{program} {usage}'.strip()}`: {purpose[0].lower()}{purpose[1:]}\n"
    text += f"\n{known}\n" if known else ""
    return text + _reasons({spelled_by(program, name, one): one for name, one in table.items()})


def _hpc_pack_program(program: str) -> str:
    """Return the verbs of a program of HPC Pack, with the command of `hn` that each stands for."""
    text = f"\n## `{program}` of HPC Pack\n"
    for word, verb in HPC_PACK[program].items():
        command = f"as `hn {' '.join(filter(None, (verb.noun, verb.verb)))}`" if verb.verb else "does nothing"
        known = " ".join(f"`/{name}`" for name in verb.works)
        text += f"\n`{f'{program} {word}'.strip()}` {command}{f': {known}' if known else ''}\n"
        text += _reasons({f"/{name}": one for name, one in verb.unused.items()})
    return text


def _reasons(table: Mapping[str, ProgramOption]) -> str:
    rows = [*_rows(table, "ignored"), *_rows(table, "refused")]
    return "\n| options | here |\n|---|---|\n" + "".join(rows) if rows else ""


def _rows(table: Mapping[str, ProgramOption], kind: str) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for spelling, one in table.items():
        if reason := getattr(one, kind):
            by_reason.setdefault(reason, []).append(f"`{spelling}`")
    word = {"ignored": "no effect", "refused": "refused"}[kind]
    yield from (f"| {' '.join(names)} | {word}: {reason} |\n" for reason, names in by_reason.items())


if __name__ == "__main__":
    sys.stdout.write(reference())
