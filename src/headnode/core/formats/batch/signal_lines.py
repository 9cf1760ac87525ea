"""The options of batch scripts for a signal before the run time limit, and what no option says of it."""

from collections.abc import Iterator

from headnode.core.formats.fidelity import Fidelity, LossReport
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import FOREVER
from headnode.core.model.signals import read_limit_signal, signal_name


def slurm_signal(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    """Yield the option of Slurm, which has a word for the script and one for the steps of `srun`."""
    if not spec.signal:
        return
    asked = read_limit_signal(spec.signal)
    if asked.target == "all":
        losses.add(Fidelity.APPROXIMATED, "job", "signal: the script gets it, and not the programs it starts")
    letter = "" if asked.target == "steps" else "B:"
    yield f"--signal={letter}{signal_name(asked.number)}@{asked.before:g}"


def grid_engine_signal(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    """Yield when Grid Engine sends SIGUSR1 to all processes of a job, if that is the signal."""
    if not spec.signal:
        return
    asked = read_limit_signal(spec.signal)
    is_sent = (signal_name(asked.number), asked.target) == ("USR1", "all")
    if is_sent and asked.before < spec.run_time < FOREVER:
        yield f"-l s_rt={round(spec.run_time - asked.before)}"
    else:
        what = "signal: Grid Engine sends only USR1, to all processes, before the limit of a job that has one"
        losses.add(Fidelity.NOT_SUPPORTED, "job", what)


def lsf_signal(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    """Yield the options of LSF: the signal for all processes of a job, and the minutes before its limit."""
    if not spec.signal:
        return
    asked = read_limit_signal(spec.signal)
    if asked.target != "all":
        losses.add(Fidelity.NOT_SUPPORTED, "job", "signal: LSF sends it to all processes of a job")
        return
    if asked.before % 60:
        losses.add(Fidelity.APPROXIMATED, "job", "signal: a whole number of minutes before the limit")
    yield f"-wa {signal_name(asked.number)} -wt {-(-round(asked.before) // 60)}"
