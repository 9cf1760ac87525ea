"""How options of batch scripts and of programs are written in tables: for programs that must start fast.

Imports nothing.
Source:  Slurm 22.05, sbatch(1), "OPTIONS".
"""

_TAKES = {"!": "never", "=": "by =", "?": "if any", "&": "two", "+": "several"}


def option_words(text: str) -> dict[str, tuple[str, str]]:
    """Return names with their letters, and what an option takes: a value, unless a sign behind it says more.

    ``!`` none; ``=`` one behind an ``=``; ``?`` the next word, unless that is an option; ``&`` two words;
    ``+`` all words up to the next option.

    >>> option_words("account/A hold/H! nice=")
    {'account': ('A', 'always'), 'hold': ('H', 'never'), 'nice': ('', 'by =')}
    """
    found = {}
    for word in text.split():
        name, _, letter = word.rstrip("!=?&+").partition("/")
        found[name] = (letter, _TAKES.get(word[-1], "always"))
    return found


SCRIPT_MARKS = {"slurm": "#SBATCH", "pbs": "#PBS", "gridengine": "#$", "lsf": "#BSUB"}
"""How a line with options begins in a script of each scheduler."""

SBATCH = option_words("""
    account/A acctg-freq array/a batch bb bbf begin/b chdir/D cluster-constraint clusters/M comment
    constraint/C container contiguous! core-spec/S cores-per-socket cpu-freq cpus-per-gpu cpus-per-task/c
    deadline delay-boot dependency/d distribution/m error/e exclude/x exclusive= export extra-node-info/B
    get-user-env= gid gpu-bind gpu-freq gpus/G gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
    hint hold/H! input/i job-name/J kill-on-invalid-dep licenses/L mail-type mail-user mcs-label mem
    mem-bind mem-per-cpu mem-per-gpu mincpus network nice= no-kill/k= no-requeue! nodelist/w nodes/N
    ntasks/n ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output/o
    overcommit/O! oversubscribe/s! parsable! partition/p power priority profile propagate= qos/q quiet/Q!
    reboot! requeue! reservation signal sockets-per-node spread-job! switches tasks-per-node test-only!
    thread-spec threads-per-core time/t time-min tmp uid use-min-nodes! verbose/v! wait/W! wait-all-nodes
    wckey x11=
""")
