"""Submit files of HTCondor are read as condor_submit reads them, or refused with the line and the reason."""

from pathlib import Path
from typing import Any

import pytest

from headnode.core.formats.condor.commands import COMMANDS
from headnode.core.formats.condor.other_commands import ALIASES, OTHER_COMMANDS
from headnode.core.formats.condor.reading import items_named, read_submit
from headnode.core.formats.dialects import JobLanguage, language_of
from headnode.core.formats.fidelity import Awareness, Fidelity, lossy_items
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts, JobSpec, Licence, OrderKey, UnitType
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import Distribution, ScriptOrigin, StagedFile, TaskSpec, TaskType

PAGE = (Path(__file__).parents[3] / "docs" / "submit-files.md").read_text()
SHELL = {"HOME": "/home/ada", "LANG": "C", "LC_ALL": "C"}
ORIGIN = ScriptOrigin(words=("job.sub",), directory="/home/ada/w", environment=SHELL)


def jobs(text: str, files: dict[str, str] | None = None) -> tuple[JobSpec, ...]:
    found, _ = read_submit(text, ORIGIN, {name: each.encode() for name, each in (files or {}).items()})
    for spec in found:
        check_job(spec)
        check_runnable(spec)
    return found


def job(commands: str, queue: str = "queue") -> JobSpec:
    (found,) = jobs(f"executable = run.sh\n{commands}\n{queue}\n")
    return found


def task(commands: str, queue: str = "queue") -> TaskSpec:
    (found,) = job(commands, queue).tasks
    return found


def refusal(text: str) -> BadRequest:
    with pytest.raises(BadRequest) as no:
        jobs(text)
    assert no.value.fix
    assert no.value.place is not None
    return no.value


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("batch_name = night run", "name", "night run"),
        ('+JobBatchName = "night"', "name", "night"),
        ("description = two words", "description", "two words"),
        ("accounting_group = physics.cms", "project", "physics.cms"),
        ("priority = -7", "priority", 1993),
        ("priority = 99999", "priority", 4000),
        ("nice_user = True", "priority", 0),
        ("hold = true", "holds", ("user",)),
        ("hold = false", "holds", ()),
        ("max_retries = 3", "task_retry_limit", 3),
        ("success_exit_code = 4", "valid_exit_codes", ((4, 4),)),
        ("retry_until = 7", "valid_exit_codes", ((0, 0), (7, 7))),
        ("retry_until = ExitCode == 7", "valid_exit_codes", ((0, 0), (7, 7))),
        (
            "on_exit_remove = (ExitBySignal == False && ExitCode == 0) || NumJobStarts >= 3",
            "task_retry_limit",
            2,
        ),
        (
            "on_exit_hold = ExitCode != 0\nperiodic_release = NumJobStarts < 5 && CurrentTime - "
            "EnteredCurrentStatus > 600",
            "task_retry_limit",
            4,
        ),
        ("deferral_time = 2000000000", "hold_until", 2000000000.0),
        ("notification = Complete", "notify_on_completion", True),
        ("notification = never", "notify_on_completion", False),
        ("notify_user = ann@example.org", "email", "ann@example.org"),
        ("concurrency_limits = Matlab, disk:4", "licences", (Licence("matlab", 1), Licence("disk", 4))),
        ("request_memory = 2048", "held", HeldAmounts(memory=2048)),
        ("request_memory = 2 * 1024", "held", HeldAmounts(memory=2048)),
        ("RequestMemory = 1.5 GB", "held", HeldAmounts(memory=1536)),
        ("request_disk = 1048576", "held", HeldAmounts(disk=1024)),
        ("request_disk = 3M", "held", HeldAmounts(disk=3)),
        ("request_cpus = 4", "single_node", True),
        ("request_gpus = 2\nrequest_cpus = 5", "unit", UnitType.GPU),
        ("request_gpus = 2\nrequest_cpus = 5", "processors_per_gpu", 3),
        ("rank = Memory", "order_by", (OrderKey("memory"),)),
        ("rank = -TARGET.Mips", "order_by", (OrderKey("speed", ascending=True),)),
        ("rank = 0", "order_by", ()),
        ('+ProjectName = "lab"\nMY.Odd = 3', "properties", {"ProjectName": "lab", "Odd": "3"}),
    ],
)
def test_commands_are_fields_of_the_job(line: str, field: str, value: Any) -> None:
    assert getattr(job(line), field) == value


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("TARGET.Memory >= 4096 && Disk > 1023", NodeNeeds(minimum_memory=4096, minimum_disk=1)),
        ("4 <= Cpus", NodeNeeds(minimum_processors=4)),
        ('Arch == "X86_64" && (OpSys == "LINUX")', NodeNeeds(architectures=("X86_64",), systems=("LINUX",))),
        ('Arch == "INTEL"', NodeNeeds(architectures=("i386",))),
        ('Machine == "a" || "b" == TARGET.Machine', NodeNeeds(names=("a", "b"))),
        ('stringListMember(Machine, "a, b")', NodeNeeds(names=("a", "b"))),
        ('Machine != "a" && !(Machine == "b")', NodeNeeds(excluded=("a", "b"))),
        ('regexp("^gpu", Machine)', NodeNeeds(patterns=("(?:gpu).*",))),
        ('!regexp("old$", Machine)', NodeNeeds(excluded_patterns=(".*(?:old)",))),
        ("HasSSD && HasTape =!= true", NodeNeeds(features=(("HasSSD",),), lacking=("HasTape",))),
        ("HasIB == True || HasOPA", NodeNeeds(features=(("HasIB", "HasOPA"),))),
        ("!HasTape && true && HasFileTransfer", NodeNeeds(lacking=("HasTape",))),
    ],
)
def test_requirements_with_a_clear_meaning_are_those_of_nodes(line: str, needs: NodeNeeds) -> None:
    assert job(f"requirements = {line}").needs == needs


@pytest.mark.parametrize(
    "line",
    [
        "requirements = Memory <= 4096",
        "requirements = Memory >= 4096 || HasSSD",
        'requirements = OpSysAndVer == "AlmaLinux9"',
        "requirements = KeyboardIdle > 900",
        "requirements = Memory >= RequestMemory * 2",
        "requirements = false",
        "requirements = HasFileTransfer =!= true",
        "requirements = (((",
        "requirements = " + "!" * 100 + "x",
        "requirements = " + "(" * 100 + "x" + ")" * 100,
        'requirements = Machine == "a" && Machine == "b"',
        "rank = Memory * 2 + KFlops",
        "universe = docker",
        "universe = local",
        "universe = grid",
        "container_image = x.sif",
        '+SingularityImage = "x.sif"',
        "+RequestCpus = 4",
        'MY.Requirements = "x"',
        '+DESIRED_Sites = "A"',
        'MY.WantOS = "el9"',
        "request_tpus = 1",
        "request_memmory = 1",
        "require_gpus = Capability > 8",
        "periodic_remove = ImageSize > 5",
        "periodic_remove = time() - EnteredCurrentStatus > 60",  # also of a job that waits
        "periodic_release = NumJobStarts < 5",  # without a hold that it could release
        "on_exit_remove = ExitCode == 0",  # for ever
        "on_exit_hold = ExitCode == 3",
        "retry_until = ExitCode >= 3",
        "cron_minute = 5",
        "x509userproxy = /tmp/x",
        "arguments = $$(Memory)",
        "arguments = $RANDOM_INTEGER(1, 9)",
        "preserve_relative_paths = true",
        "encrypt_execute_directory = true",
        "include : other.sub",
        "use feature : gpus",
    ],
)
def test_what_decides_where_or_whether_a_job_runs_is_refused_and_not_dropped(line: str) -> None:
    assert refusal(f"executable = a\n{line}\nqueue\n").code == "not-supported"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("arguments = one \\\"two\\\" 'three'", "one '\"two\"' ''\"'\"'three'\"'\"''"),
        ('arguments = "3 simple arguments"', "3 simple arguments"),
        ("arguments = \"one \"\"two\"\" 'spacey ''quoted'' argument' ''\"", None),
        ("args = a * b", "a '*' b"),
    ],
)
def test_arguments_are_read_in_both_syntaxes(line: str, words: str | None) -> None:
    command = task(line).command
    if words is None:
        import shlex

        assert shlex.split(command)[1:] == ["one", '"two"', "spacey 'quoted' argument", ""]
    else:
        assert command == f"/home/ada/w/run.sh {words}"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("environment = one=1;two=2;three=\"quotes have no 'special' meaning\"",
         {"one": "1", "two": "2", "three": "\"quotes have no 'special' meaning\""}),
        ("environment = \"one=1 two=\"\"2\"\" three='spacey ''quoted'' value'\"",
         {"one": "1", "two": '"2"', "three": "spacey 'quoted' value"}),
        ("getenv = true", SHELL),
        ("getenv = L*, !LC_*", {"LANG": "C"}),
        ("getenv = true\nenv = LANG=de", {**SHELL, "LANG": "de"}),
        ("getenv = false", {}),
    ],
)  # fmt: skip
def test_environments_are_read_in_both_syntaxes(line: str, found: dict[str, str]) -> None:
    assert task(line).environment == found


def test_processes_that_differ_by_their_number_are_a_sweep() -> None:
    found = task(
        "arguments = -n $(Process)\noutput = o.$(Cluster).$INT(ProcId,%04d)\ninitialdir = run.$(Step)",
        "queue 100",
    )
    assert (found.kind, found.start, found.end, found.increment) == (TaskType.SWEEP, 0, 99, 1)
    assert found.command == "/home/ada/w/run.sh -n '*'"
    assert found.standard_output == "/home/ada/w/run.*/o.%CCP_JOBID%.****"
    assert found.work_directory == "/home/ada/w/run.*"


def test_a_number_that_is_calculated_from_that_of_the_process_is_the_value_of_the_sweep() -> None:
    found = task("case = 2 * ($(Process) + 1) - 1\narguments = $INT(case) $INT(case,%03d)", "queue 5")
    assert (found.start, found.end, found.increment) == (1, 9, 2)
    assert found.command.endswith("run.sh '*' '***'")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("environment = N=$(Process)", None),  # variables of a sweep are all the same
        ("arguments = $(Process)$(Process)", "00 11 22"),
        ("n = 9 - $(Process)\narguments = $INT(n)", "9 8 7"),
        ("n = $(Process) * $(Process)\narguments = $INT(n)", "0 1 4"),
        ("n = $(Process) + 1\narguments = $INT(n),$(Process)", "1,0 2,1 3,2"),
        ("arguments = $CHOICE(Process, a, b, c)", "a b c"),
        ("request_cpus = 2\narguments = $(Process)", "0 1 2"),
    ],
)
def test_what_no_sweep_says_becomes_a_task_for_each_process(line: str, text: str | None) -> None:
    found = job(line, "queue 3").tasks
    assert [each.name for each in found] == ["0", "1", "2"]
    assert all(each.kind is TaskType.BASIC for each in found)
    if text:
        assert [each.command.partition(" ")[2] for each in found] == text.split()
    else:
        assert [each.environment for each in found] == [{"N": str(number)} for number in range(3)]


def test_a_star_and_a_caret_of_the_user_are_no_value_of_the_sweep() -> None:
    found = task("arguments = \"'*' '^' $(Process)\"\noutput = a*b", "queue 2")
    assert found.command.endswith("run.sh '^*' '^^' '*'")
    assert found.standard_output.endswith("/a^*b")


def test_several_processors_of_a_process_are_on_one_node() -> None:
    found = job("request_cpus = 4\nrequest_memory = 10G", "queue 2")
    assert [(each.minimum, each.maximum, each.distribution) for each in found.tasks] == [
        (4, 4, Distribution(nodes=1))
    ] * 2
    assert found.process_memory == 2560
    assert not found.single_node


def test_a_gpu_has_its_processors_on_its_node_so_that_a_sweep_may_count_it() -> None:
    found = job("request_gpus = 1\nrequest_cpus = 4\nrequest_memory = 8G", "queue 10")
    assert (found.unit, found.processors_per_gpu, found.process_memory) == (UnitType.GPU, 4, 2048)
    assert [(each.kind, each.minimum) for each in found.tasks] == [(TaskType.SWEEP, 1)]


def test_processes_that_ask_for_different_things_are_jobs_of_their_own() -> None:
    found = jobs("executable = a\nqueue 2\nrequest_memory = 5\nqueue\nrequest_memory =\nqueue\n")
    assert [[each.instances for each in one.tasks] for one in found] == [[2, 1], [1]]
    assert found[1].held == HeldAmounts(memory=5)


def test_the_number_of_processes_at_once_is_the_size_of_the_job() -> None:
    found = job("max_materialize = 3", "queue 10")
    assert (found.minimum, found.maximum) == (1, 3)


def test_the_time_limit_is_that_of_the_job_if_it_has_one_process_that_runs_once() -> None:
    line = "periodic_remove = JobStatus == 2 && time() - EnteredCurrentStatus > 2 * 3600"
    alone, again = job(line), job(f"{line}\nmax_retries = 2")
    assert (alone.run_time, alone.tasks[0].run_time) == (7200.0, FOREVER)
    assert (again.run_time, again.tasks[0].run_time) == (FOREVER, 7200.0)
    several = job("allowed_execute_duration = 60\nallowed_job_duration = 90", "queue 2")
    assert (several.run_time, several.tasks[0].run_time) == (FOREVER, 60.0)


def test_licences_are_of_each_process() -> None:
    assert job("concurrency_limits = matlab", "queue 5").licences == (Licence("matlab", None),)
    assert refusal("executable = a\nconcurrency_limits = m:2\nqueue 5\n").code == "not-supported"


@pytest.mark.parametrize(
    ("queue", "arguments"),
    [
        ("queue x in (a b, c)", ["a", "b", "c"]),
        ("queue x in a, b", ["a", "b"]),
        ("queue x in (\n a\n b\n)", ["a", "b"]),
        ("queue x in [1:] (a b c)", ["b", "c"]),
        ("queue x in [::2] (a b c)", ["a", "c"]),
        ("queue x in [-1] (a b c)", ["c"]),
        ("queue x in [:-1] (a b c)", ["a", "b"]),
        ("queue x from (\n# no\n one two\n\n three\n)", ["one two", "three"]),
        ("queue x, y from (\n one, two three\n)", ["one+two three"]),
        ("queue x y from list.txt", ["a+b c", "d+"]),
        ("queue x from [1:] list.txt", ["d"]),
        ("queue 2 x in (a)", ["a", "a"]),
        ("queue x matching files *.dat", ["1.dat", "2.dat"]),
        ("queue x matching (*.dat)", ["3.dat"]),
        ("N = 2\nqueue $(N) * 2 x in (a)", ["a"] * 4),
    ],
)
def test_queue_takes_items_from_lists_files_and_names(queue: str, arguments: list[str]) -> None:
    files = {
        "list.txt": "a, b c\n# no\n\nd\n",
        "//matching files: *.dat": "1.dat\n2.dat",
        "//matching: *.dat": "3.dat",
    }
    several = "y" in queue.partition("from")[0]
    text = f"executable = a\nN = 1\narguments = \"'$(x){'+$(y)' if several else ''}'\"\n{queue}\n"
    assert set(items_named(text)) <= set(files)
    (found,) = jobs(text, files)
    shown = [
        each.command.partition("/a ")[2].strip("'") for each in found.tasks for _ in range(each.instances)
    ]
    assert shown == arguments


def test_a_variable_of_queue_may_be_a_command() -> None:
    (found,) = jobs(
        "executable = a\narguments = before\nqueue arguments, output from list\nqueue\n",
        {"list": "1 one.txt\n2 two.txt\n"},
    )
    shown = [(each.command.partition("/a ")[2], each.standard_output) for each in found.tasks]
    assert shown == [("1", "/home/ada/w/one.txt"), ("2", "/home/ada/w/two.txt"), ("before", "")]


def test_a_macro_may_have_a_name_like_that_of_an_attribute() -> None:
    assert task("out = results\noutput = $(out)/x").standard_output == "/home/ada/w/results/x"


def test_macros_of_items_paths_and_variables_are_expanded() -> None:
    found = job(
        "arguments = $(Item) $(ItemIndex) $(Step) $F(x) $Fp(Item) $Fn(Item) $Fx(Item) $Fnx(Item) $Fd(Item) "
        "$BASENAME(Item) $DIRNAME(Item) $ENV(LANG) $ENV(NONE:no) $(none:$(Item:x)) "
        "$(DOLLAR)(x) $(SUBMIT_FILE)",
        "queue in (/d/e/a.b)",
    )
    words = found.tasks[0].command.split()[1:]
    assert words == [
        *("/d/e/a.b", "0", "0", "x", "/d/e/", "a", ".b", "a.b", "e/", "a.b", "/d/e/", "C", "no", "/d/e/a.b"),
        *("'$(x)'", "job.sub"),
    ]


def test_a_macro_has_the_value_of_its_last_definition_and_may_add_to_it() -> None:
    (found,) = jobs("executable = a\nx = 1\narguments = $(x)\nqueue\nx = $(x)2\nqueue\nx = 3\nqueue\n")
    assert [each.command[-2:].strip() for each in found.tasks] == ["1", "12", "3"]


def test_conditions_choose_lines() -> None:
    (found,) = jobs(
        "executable = a\nx = 0\nif defined x\n arguments = yes\nelse\n arguments = no\nendif\n"
        "if $(x)\n output = o\nelif version >= 8.1\n error = e\nelse\n output = p\nendif\n"
        "if ! defined y\n if false\n  input = i\n endif\nendif\nqueue\n"
    )
    only = found.tasks[0]
    assert only.command.endswith("a yes")
    assert (only.standard_output, only.standard_error, only.standard_input) == ("", "/home/ada/w/e", "")


def test_lines_go_on_and_values_may_have_several_lines() -> None:
    (found,) = jobs(
        "# a comment \\\nexecutable = \\\n # inside\n  run\\\n.sh\r\n"
        "arguments @=end\n one\n two\n@end\nQUEUE\n"
    )
    assert found.tasks[0].command == "/home/ada/w/run.sh one two"


def test_files_are_staged_where_a_file_names_them() -> None:
    found = task(
        "should_transfer_files = YES\ninitialdir = i\ninput = in.txt\noutput = out.txt\n"
        "transfer_input_files = a/b.txt, d/, https://h/x?key=1\ntransfer_output_files = r/s, t\n"
        'transfer_output_remaps = "t = u/v; s = no"'
    )
    assert found.command == "file:///home/ada/w/run.sh"
    assert found.stage_in == (
        StagedFile("b.txt", "file:///home/ada/w/i/a/b.txt"),
        StagedFile("./", "file:///home/ada/w/i/d/"),
        StagedFile("x", "https://h/x?key=1"),
    )
    assert found.stage_out == (
        StagedFile("r/s", "file:///home/ada/w/i/s"),
        StagedFile("t", "file:///home/ada/w/i/u/v"),
    )
    assert (found.work_directory, found.standard_output) == ("", "/home/ada/w/i/out.txt")


def test_new_files_are_taken_away_where_none_are_named() -> None:
    found = task("should_transfer_files = YES\ninitialdir = i")
    assert found.stage_out == (StagedFile("./", "file:///home/ada/w/i/"),)
    assert task('should_transfer_files = YES\ntransfer_output_files = ""').stage_out == ()


@pytest.mark.parametrize("line", ["", "should_transfer_files = NO", "should_transfer_files = IF_NEEDED"])
def test_without_files_to_transfer_a_process_runs_in_its_initial_directory(line: str) -> None:
    found = task(line)
    assert not found.stages
    assert (found.command, found.work_directory) == ("/home/ada/w/run.sh", "/home/ada/w")


def test_processes_of_the_parallel_universe_are_a_gang() -> None:
    found = job("universe = parallel\nmachine_count = 3\narguments = $(Node)")
    assert (found.together, found.tasks[0].instances) == (True, 3)
    assert found.tasks[0].command.endswith("'*'")
    two = job("universe = parallel\nmachine_count = 2\nrequest_cpus = 2\narguments = $(Node)")
    assert [each.command[-1] for each in two.tasks] == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("executable = a", "queue"),
        ("queue\n", "executable"),
        ("executable = a\nqueue 0\n", "queue"),
        ("executable = a\nqueue -1\n", "queue"),
        ("executable = a\nqueue x\n", "queue"),
        ("executable = a\nqueue x in (a\n", "queue"),
        ("executable = a\nqueue x in [::0] (a)\n", "queue"),
        ("executable = a\nqueue x from\n", "queue"),
        ("executable = a\nqueue x from missing.txt\n", "queue-file"),
        ("executable = a\nqueue x from make.sh |\n", "not-supported"),
        ("executable = a\nqueue 1000000000000\n", "too-many-tasks"),
        ("executable = a\nenvironment = N=$(Process)\nqueue 20001\n", "too-many-tasks"),
        ("executable = a\nrequest_cpus = 2\nqueue 1000000\n", "too-many-tasks"),
        ("executable = a\nnonsense\nqueue\n", "statement"),
        ("executable = a\nerror : no\nqueue\n", "statement"),
        ("executable = a\nif x > 3\nqueue\nendif\n", "condition"),
        ("executable = a\nif true\nqueue\n", "condition"),
        ("executable = a\nendif\nqueue\n", "condition"),
        ("executable = a\nif true\nelse\nelse\nendif\nqueue\n", "condition"),
        ("executable = $(b)\nb = $(c)\nc = $(b)\nqueue\n", "macro"),
        ("executable = $(nowhere)\nqueue\n", "macro"),
        ("executable = $ENV(NOWHERE)\nqueue\n", "macro"),
        ("executable = a\narguments = $(x\nqueue\n", "macro"),
        ("executable = a\narguments = $SUBSTR(x,1)\nqueue\n", "macro"),
        ("executable = a\narguments = $INT(x)\nx = y\nqueue\n", "macro"),
        ("executable = a\narguments @=end\n b\nqueue\n", "block"),
        ('executable = a\narguments = "b\nqueue\n', "value"),
        ('executable = a\narguments = a "b"\nqueue\n', "value"),
        ("executable = a\nenvironment = b\nqueue\n", "value"),
        ("executable = a\nrequest_cpus = two\nqueue\n", "value"),
        ("executable = a\nrequest_memory = much\nqueue\n", "value"),
        ("executable = a\nhold = perhaps\nqueue\n", "value"),
        ("executable = a\noutput = $HOME/x\nqueue\n", "value"),
        ("executable = a\ntransfer_input_files = %HOME%/x\nqueue\n", "value"),
        ("executable = a\ntransfer_output_files = %HOME%\nqueue\n", "value"),
        ("executable = a\nbatch_name = x$(Cluster)\nqueue\n", "value"),
        ("executable = a\nargumets = b\nqueue\n", "command"),
        (
            'executable = a\nshould_transfer_files = YES\ntransfer_output_remaps = "a = b"\nqueue\n',
            "transfer",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(text: str, code: str) -> None:
    assert refusal(text).code == code


def test_every_command_is_read_or_refused_and_a_value_of_none_is_reported() -> None:
    _, report = read_submit("executable = a\nbasename = b\nqueue\n", ORIGIN)
    assert [(item.kind, item.where) for item in report if item.kind is Fidelity.NOTE] == [
        (Fidelity.NOTE, "basename")
    ]
    assert not {*COMMANDS} & {*OTHER_COMMANDS}
    assert {*ALIASES.values()} <= {*COMMANDS}
    for name in OTHER_COMMANDS:
        assert read_or_refused(name)


def read_or_refused(name: str) -> bool:
    try:
        _, report = read_submit(f"executable = a\n{name} = false\nqueue\n", ORIGIN)
    except BadRequest as no:
        return no.code == "not-supported"
    return name in {item.where for item in report}


def test_what_has_no_effect_is_reported_and_refused_under_reject() -> None:
    text = "executable = a\nlog_xml = true\nqueue\n"
    _, report = read_submit(text, ORIGIN)
    assert [(item.where, item.line) for item in lossy_items(report)] == [("log_xml", 2)]
    with pytest.raises(BadRequest, match="not-understood"):
        read_submit(text, ORIGIN, awareness=Awareness.REJECT)


def test_the_page_has_every_command() -> None:
    commands = (name for name in (*COMMANDS, *OTHER_COMMANDS) if not name.startswith("+"))
    assert [name for name in commands if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("executable = a\nqueue\n", JobLanguage.CONDOR),
        ("# c\nExecutable=a\nQueue 3\r\n", JobLanguage.CONDOR),
        ("executable = a", JobLanguage.CONDOR),
        ('universe = vanilla\nqueue from (\n"a"\n)\n', JobLanguage.CONDOR),
        ('command = "a"\nstdout = """\nqueue\n"""', JobLanguage.NATIVE),
        ('name = "queue"', JobLanguage.NATIVE),
        ('queue = "a"', JobLanguage.NATIVE),
    ],
)
def test_a_submit_file_is_known_by_its_content(text: str, language: JobLanguage) -> None:
    assert language_of(text) is language
    assert language_of(text.encode()) is language


def test_amounts_are_calculated_from_attributes_wherever_they_are_set() -> None:
    text = (
        "RequestCpus = MY.Cores\nrequest_memory = 512 * RequestCpus\nRequestDisk = floor(MY.Disk / 1024)\n"
        "MY.Cores = 2\n+Disk = 10000000\n"
    )
    found = job(text)
    assert (found.tasks[0].minimum, found.held) == (2, HeldAmounts(memory=1024, disk=10))
    assert "request_cpus" in str(refusal("executable = a\nrequest_cpus = MY.Nope\nqueue\n"))


def test_an_attribute_may_have_the_id_of_the_job_and_name_files() -> None:
    found = job('MY.JobId = "$(ClusterId).$(ProcId)"\noutput = w-$F(MY.JobId).out\n+Named = "n-$F(MY.JobId)"')
    assert found.properties == {"JobId": "$(Cluster).0", "Named": "n-$(Cluster).0"}
    assert found.tasks[0].standard_output == "/home/ada/w/w-%CCP_JOBID%.0.out"


@pytest.mark.parametrize(
    ("line", "log"),
    [
        ("log = x.log", "/home/ada/w/x.log"),
        ("log = /logs/$(Cluster).$(Process)", "/logs/%CCP_JOBID%.*"),
        ("initialdir = run\nlog = x", "/home/ada/w/run/x"),
        ("log = /dev/null", None),
    ],
)
def test_the_event_log_is_a_property_of_each_task(line: str, log: str | None) -> None:
    assert task(line, "queue 2").properties.get("UserLog") == log


def test_a_log_without_a_known_directory_is_reported_as_lost() -> None:
    _, report = read_submit("executable = /bin/a\nlog = x.log\nqueue\n", ScriptOrigin())
    assert [item.where for item in lossy_items(report)] == ["log"]


def test_logs_are_written_into_submit_files_also_of_processes_with_different_ones() -> None:
    from headnode.core.formats.condor.writing import write_submit

    text = "executable = /bin/a\nlog = x.$(Cluster).$(word)\nleave_in_queue = true\nqueue word in (p, q)\n"
    (first,) = jobs(text)
    written, report = write_submit(first)
    assert "log = /home/ada/w/x.$(Cluster).p\n" in written.decode()
    (again,) = jobs(written.decode())
    assert [each.properties for each in again.tasks] == [each.properties for each in first.tasks]
    assert again.properties == first.properties
    assert not [item for item in report if "properties" in item.what]


def test_the_submit_file_of_nextflow_is_read() -> None:
    found = job(
        "log = .command.log\ngetenv = true\nrequest_cpus = 2\nmachine_count = 1\nrequest_memory = 2 GB\n"
        "request_disk = 1 GB\nperiodic_remove = (RemoteWallClockTime - CumulativeSuspensionTime) > 3600"
    )
    assert found.held == HeldAmounts(memory=2048, disk=1024)
    assert found.tasks[0].minimum == 2
    assert found.run_time == 3600.0
    assert (found.single_node, found.together) == (True, False)  # machine_count is of the parallel universe
