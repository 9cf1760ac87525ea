"""Commands of submit files without an effect here, those that are refused, and other names of commands.

Source:  HTCondor 24, condor_submit(1), "Submit Description File Commands".
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.command_reading import SubmitCommand, ignored, refused, refused_if
from headnode.core.formats.condor.commands import COMMANDS
from headnode.core.formats.condor.draft import SubmitDraft
from headnode.core.formats.condor.macros import without_signs
from headnode.core.formats.condor.words import unquoted
from headnode.core.formats.fidelity import Fidelity

_OF_POOL: Final = ignored("it is about the machinery of a pool, and changes nothing here")
_NO_IMAGE: Final = refused("nodes start no containers, and the image decides what runs")
_NO_CREDENTIALS: Final = refused(
    "no such credentials are sent with the job",
    "leave it out; for storage see: credential in docs/staging.md",
)
_NO_GPU_RULE: Final = refused(
    "it decides which GPUs the job gets", "write request_gpus, and the model as a feature in requirements"
)
_NO_KIND: Final = refused("it is about a universe that is not supported", "use the vanilla universe")
_MAIL: Final = ignored("notifications have their own text")
_SIGNALS: Final = ignored("a task is ended with SIGTERM, and SIGKILL after the grace period of the cluster")
_EVENTS: Final = ignored("no event log is written; see: hn job view ID --history")
_AT_ONCE: Final = ignored("output is written to its file at once", Fidelity.KEPT)

OTHER_COMMANDS: Final[Mapping[str, SubmitCommand]] = {
    **dict.fromkeys(
        ("docker_image", "container_image", "docker_network_type", "container_service_names",
         "container_target_dir", "docker_pull_policy", "transfer_container", "+singularityimage"), _NO_IMAGE
    ),
    **dict.fromkeys(
        ("x509userproxy", "use_x509userproxy", "use_oauth_services", "use_scitokens", "scitokens_file",
         "myproxyhost", "myproxycredentialname", "delegate_job_gsi_credentials_lifetime",
         "aws_access_key_id_file", "aws_secret_access_key_file", "gs_access_key_id_file",
         "gs_secret_access_key_file"), _NO_CREDENTIALS
    ),
    **dict.fromkeys(
        ("require_gpus", "gpus_minimum_memory", "gpus_minimum_capability", "gpus_maximum_capability",
         "gpus_minimum_runtime", "cuda_version"), _NO_GPU_RULE
    ),
    **dict.fromkeys(
        ("grid_resource", "vm_type", "vm_memory", "vm_disk", "jar_files", "java_vm_args", "batch_queue",
         "batch_project", "batch_runtime"), _NO_KIND
    ),
    **dict.fromkeys(
        ("cron_minute", "cron_hour", "cron_day_of_month", "cron_month", "cron_day_of_week", "cron_window",
         "cron_prep_time"),
        refused("the job would run again and again", "submit it from cron"),
    ),
    **dict.fromkeys(
        ("checkpoint_exit_code", "transfer_checkpoint_files", "checkpoint_destination",
         "+successcheckpointexitcode"),
        refused("a program that ends to be started again has no equivalent", "let it write its state"),
    ),
    **dict.fromkeys(
        ("transfer_plugins", "public_input_files", "transfer_input_plugins"),
        refused("files are staged by the schemes in docs/staging.md", "write URLs in transfer_input_files"),
    ),
    **dict.fromkeys(
        ("encrypt_execute_directory", "encrypt_input_files", "encrypt_output_files"),
        refused("directories and transfers are not encrypted for a job"),
    ),
    **dict.fromkeys(
        ("remote_initialdir", "vacate_reason", "job_machine_attrs_required", "bulk_requirements",
         "append_requirements", "primary_unix_group", "starter_debug_requirements"),
        refused("it decides where or as whom the job runs, and has no equivalent"),
    ),
    "preserve_relative_paths": refused_if("files come into the directory by their last names", "write URLs"),
    "transfer_output": refused_if("output is always written", "leave it out", value=False),
    "transfer_error": refused_if("output is always written", "leave it out", value=False),
    "transfer_input": refused_if("the input is read where it is", "leave it out", value=False),
    "run_as_owner": refused_if("the program runs as its owner", "leave it out", value=False),
    "interactive": refused_if("the job is a terminal", "use: hn job shell"),
    "allow_startup_script": refused_if("scripts of the standard universe are no more", "leave it out"),
    **dict.fromkeys(("stream_output", "stream_error", "stream_input", "skip_filechecks"), _AT_ONCE),
    **dict.fromkeys(
        ("log_xml", "dagman_log", "ulog_execute_attrs", "submit_event_notes", "submit_event_user_notes",
         "execute_event_notes"), _EVENTS
    ),
    **dict.fromkeys(
        ("email_attributes", "on_exit_hold_reason", "on_exit_hold_subcode", "periodic_hold_reason",
         "periodic_hold_subcode", "periodic_remove_reason", "hold_reason"), _MAIL
    ),
    **dict.fromkeys(
        ("kill_sig", "remove_kill_sig", "hold_kill_sig", "kill_sig_timeout", "want_graceful_removal",
         "job_max_vacate_time", "max_job_retirement_time"), _SIGNALS
    ),
    **dict.fromkeys(
        ("job_lease_duration", "keep_claim_idle", "job_machine_attrs",
         "job_machine_attrs_history_length", "job_ad_information_attrs", "copy_to_spool", "image_size",
         "rendezvousdir", "noop_job", "noop_job_exit_code", "noop_job_exit_signal", "load_profile",
         "load_plugins", "stack_size", "nextjobstartdelay", "next_job_start_delay", "max_idle",
         "deferral_window", "deferral_prep_time", "max_transfer_input_mb", "max_transfer_output_mb",
         "dont_encrypt_input_files", "dont_encrypt_output_files", "want_io_proxy", "file_remaps",
         "buffer_size", "buffer_block_size", "fetch_files", "compress_files", "append_files", "local_files",
         "cluster_attributes", "manifest", "manifest_dir", "starter_debug", "starter_log",
         "memory_usage", "disk_usage", "hold_kill_timeout"), _OF_POOL
    ),
    "accounting_group_user": ignored("usage is accounted to the owner of the job"),
}  # fmt: skip
"""By name; what a site or a pool would do for the job is reported, what decides how it runs is refused."""

ALIASES: Final[Mapping[str, str]] = {
    "args": "arguments", "arguments2": "arguments", "env": "environment", "environment2": "environment",
    "stdin": "input", "stdout": "output", "stderr": "error",
    "initial_dir": "initialdir", "job_iwd": "initialdir", "jobbatchname": "batch_name",
    "prio": "priority", "niceuser": "nice_user", "get_env": "getenv", "requestcpus": "request_cpus",
    "request_cpu": "request_cpus", "requestmemory": "request_memory", "requestdisk": "request_disk",
    "requestgpus": "request_gpus", "request_gpu": "request_gpus", "preferences": "rank",
    "core_size": "coresize", "userlog": "log", "node_count": "machine_count", "nodecount": "machine_count",
    "concurrencylimits": "concurrency_limits", "acctgroup": "accounting_group",
    "transferinputfiles": "transfer_input_files", "transferoutputfiles": "transfer_output_files",
    "shouldtransferfiles": "should_transfer_files", "whentotransferoutput": "when_to_transfer_output",
    "transferoutputremaps": "transfer_output_remaps", "transferexecutable": "transfer_executable",
    "+jobbatchname": "batch_name", "+accountinggroup": "accounting_group", "+acctgroup": "accounting_group",
    "+jobprio": "priority", "+niceuser": "nice_user",
}  # fmt: skip
"""Other names of commands, and attributes that say the same."""

_OF_JOB: Final = frozenset(
    """requirements rank requestcpus requestmemory requestdisk requestgpus concurrencylimits
    concurrencylimitsexpr cmd args arguments env environment iwd in out err owner user acctgroupuser
    jobuniverse wantdocker wantcontainer dockerimage containerimage onexithold onexitremove periodichold
    periodicrelease periodicremove shouldtransferfiles whentotransferoutput transferinput transferoutput
    maxhosts minhosts deferraltime jobmaxretries desired_sites desired_usgms_sites undesired_sites
    projectsites wantglidein wantflocking allowedexecuteduration allowedjobduration""".split()  # noqa: SIM905
)
"""Attributes that decide what runs, when and where: they have commands, or no equivalent."""


_DECIDING: Final = ("want", "desired", "undesired", "require", "singularity", "container", "docker")
"""How names of attributes begin by which sites choose machines and images."""


def command_named(name: str) -> tuple[str, SubmitCommand] | None:
    """Return a command by its name in lower case, with its usual name; None for macros and attributes."""
    usual = ALIASES.get(name, name)
    known = COMMANDS.get(usual) or OTHER_COMMANDS.get(usual)
    if known is None and usual.startswith("request_"):
        return usual, _unknown_resource(usual)
    return None if known is None else (usual, known)


def _unknown_resource(name: str) -> SubmitCommand:
    meant = get_close_matches(name, [each for each in COMMANDS if each.startswith("request_")], 1)
    fix = f"did you mean {meant[0]}? " if meant else ""
    what = f"nodes have no resource {name.removeprefix('request_')[:40]!r}"
    return refused(what, f"{fix}write it as a feature in requirements, or as a licence in concurrency_limits")


def read_attribute(draft: SubmitDraft, place: OptionPlace, name: str, text: str) -> None:
    """Read an attribute of the job, ``+Name = value``: it is kept, if it decides nothing.

    Raises:  BadRequest ``not-supported``.
    """
    if name.lower() in _OF_JOB or name.lower().startswith(_DECIDING):
        what = "it decides how the job runs, past the commands"
        place.refuse(what, "use the command for it", "not-supported")
    if name.lower() == "parallelshutdownpolicy":
        draft.waits_for_all = text.strip('"').upper() == "WAIT_FOR_ALL"
        place.report(Fidelity.KEPT, "when a parallel job ends")
        return
    draft.properties[name] = unquoted(without_signs(text))
    place.report(Fidelity.NOT_SUPPORTED, "it is kept as a property of the job, and nothing here acts on it")


def refuse_misspelt(place: OptionPlace, name: str) -> None:
    """Report a value that is neither a command nor a macro that is used.

    Raises:  BadRequest ``command`` if it looks like a command.
    """
    known = (*COMMANDS, *OTHER_COMMANDS, *ALIASES)
    meant = get_close_matches(name.lower()[:60], known, n=1, cutoff=0.87)
    if meant:
        fix = f"did you mean {meant[0]!r}?"
        place.refuse("there is no such command, and no macro of that name is used", fix, "command")
    place.report(Fidelity.NOTE, "it is no command, and no macro of that name is used")
