"""Print the parts of the SDK that follow from the protocol and from the catalogue of options.

The verbs come from the table of the head, the options of jobs from the catalogue; the synchronous face is the
asynchronous one without `async` and `await`.  `make bless` writes them, a test of the project compares.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from documents.protocol_tables import WHERE
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import Verb, VerbKind
from headnode.core.formats.native.keys import JOB_KEYS, TASK_KEYS, TASK_ONLY
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS

SDK = Path(__file__).parents[1] / "src" / "headnode" / "sdk"
PRINTED = "Printed by `make bless` (scripts/sdk_source.py): do not edit."
WIDTH = 110

GROUPS: Mapping[str, tuple[str, str, str]] = {
    "job_verbs": ("JobVerbs", "Verbs that make and change jobs", "jobs job_batches job_control"),
    "job_view_verbs": (
        "JobViewVerbs", "Verbs that show jobs and limits",
        "job_views job_efficiency queue watch events limits",
    ),
    "task_verbs": ("TaskVerbs", "Verbs about tasks, their output, and job groups", "tasks groups"),
    "node_verbs": (
        "NodeVerbs", "Verbs about nodes and resources", "nodes node_commands reservations resources standby",
    ),
    "recurring_verbs": ("RecurringVerbs", "Verbs about recurring jobs", "recurring"),
    "cluster_verbs": ("ClusterVerbs", "Verbs about the cluster, templates, filters and users", ""),
}  # fmt: skip
"""The verbs in files of one subject each, by the modules of the head; the last has those of all others.

Verbs with a conversation, such as `shell`, have no method.
"""


def printed_files() -> dict[Path, str]:
    """Return the printed files of the SDK, formatted."""
    files = {SDK / "options.py": _options()}
    for name, (title, about, subjects) in GROUPS.items():
        files[SDK / "verbs" / f"{name}.py"] = _verb_file(title, about, subjects.split())
    for path in sorted((SDK / "asynchronous").glob("*.py")):
        if path.stem not in ("__init__", "connection"):
            files[SDK / "synchronous" / path.name] = synchronous(path.read_text())
    return {path: _formatted(text) for path, text in files.items()}


# ---------------------------------------------------------------- the synchronous face

_WORDS = (
    (r"\basync with asyncio\.", "with "),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\baclosing\b", "closing"),
    (r"\basynchronous\b", "synchronous"),
    (r"\bAsynchronous\b", "Synchronous"),
    (r"\banext\b", "next"),
    (r"\baclose\b", "close"),
)


def synchronous(text: str) -> str:
    """Return the synchronous form of an asynchronous module.

    >>> synchronous("async def wait(self) -> AsyncIterator[int]:\\n    await self.verbs.ping()")
    'def wait(self) -> Iterator[int]:\\n    self.verbs.ping()'
    """
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    if PRINTED in text or not text.startswith('"""'):
        return text
    first, _, rest = text.partition('"""\n')
    return f'{first}\n\n{PRINTED}\n"""\n{rest}' if "\n" not in first else f'{first}\n{PRINTED}\n"""\n{rest}'


def _formatted(text: str) -> str:
    """Return source as ruff formats it, with sorted imports and without unused ones."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    for command in (["check", "--fix-only", "--select", "F401,I", "-"], ["format", "-"]):
        done = subprocess.run(
            [*ruff, *command, "--quiet", "--stdin-filename", str(SDK / "printed.py")],
            input=text, capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


# ---------------------------------------------------------------- verbs


def _verbs_of(subjects: Collection[str]) -> Iterator[Verb[Any, Any]]:
    named = {subject for _, _, subjects in GROUPS.values() for subject in subjects.split()}
    for each in VERBS.values():
        subject = each.function.__module__.rpartition(".")[2]
        if each.kind is not VerbKind.STREAM and (subject in subjects if subjects else subject not in named):
            yield each


def _verb_file(title: str, about: str, subjects: Collection[str]) -> str:
    verbs = list(_verbs_of(subjects))
    used = {kind for verb in verbs for kind in (verb.request, _answer(verb), *_structs_in(verb.request))}
    imports = sorted(map(_import, used))
    methods = "\n\n".join(_method(verb) for verb in verbs)
    return "\n".join([
        f'"""{about}, as methods.\n\n{PRINTED}\n"""\n',
        "from typing import Any, Literal",
        "from headnode.core.model.reservation import AtEnd",
        *imports,
        "from headnode.sdk.verbs.verb_methods import updates_of, verb_of",
        f'\n\nclass {title}:\n    """{about}."""\n',
        methods,
    ])  # fmt: skip


def _structs_in(request: type) -> Iterator[type]:
    """Yield the structs that fields of a request are, or may be."""
    ahead = [*get_type_hints(request).values()]
    while ahead:
        hint = ahead.pop()
        ahead += get_args(hint)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield hint


def _import(kind: type) -> str:
    return f"from {kind.__module__} import {kind.__name__}"


def _answer(verb: Verb[Any, Any]) -> type[msgspec.Struct]:
    answer: type[msgspec.Struct] = get_args(verb.answer)[0] if verb.kind is VerbKind.UPDATES else verb.answer
    return answer


def _method(verb: Verb[Any, Any]) -> str:
    """Return the method that asks for a verb: the fields of its request, and its answer."""
    updates = verb.kind is VerbKind.UPDATES
    fields = msgspec.structs.fields(verb.request)
    hints = get_type_hints(verb.request)
    required = [f"{field.name}: {_shown(hints[field.name])}" for field in fields if field.required]
    options = [_optional(field, hints[field.name]) for field in fields if not field.required]
    options += ["idempotency: str | None = None"] if verb.again is not None else []
    options += ["timeout: float | None = None"] if updates else []
    signature = ", ".join(["self", *required, *(["*", *options] if options else [])])
    declared = "updates_of" if updates else "verb_of"
    creates = ", creates=True" if verb.again is not None else ""
    return textwrap.indent(
        f"@{declared}({verb.request.__name__}{creates})\n"
        f"def {verb.name}({signature}) -> {_answer(verb).__name__}:\n"
        f"{textwrap.indent(_docstring(verb), '    ')}",
        "    ",
    )


def _optional(field: msgspec.structs.FieldInfo, kind: Any) -> str:
    """Return a parameter that has a default; None stands for a default that is made anew."""
    if field.default_factory is not msgspec.NODEFAULT:
        return f"{field.name}: {_shown(kind)} | None = None"
    return f"{field.name}: {_shown(kind)} = {field.default!r}"


def _shown(kind: Any) -> str:
    """Return a type as it is written in source."""
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(map(_shown, get_args(kind)))
    if kind in (NoneType, ...):
        return "None" if kind is NoneType else "..."
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
    if get_args(kind):
        return f"{get_origin(kind).__name__}[{', '.join(map(_shown, get_args(kind)))}]"
    name: str = kind.__name__
    return name


def _docstring(verb: Verb[Any, Any]) -> str:
    """Return the docstring of a method: what the verb does, for whom, and its fields."""
    first, _, rest = verb.description.partition("Raises:")[0].strip().partition("\n")
    more = textwrap.fill(" ".join(rest.split()), WIDTH - 8)
    fields = [
        textwrap.fill(f"{field.name}: {said}", WIDTH - 8, subsequent_indent="    ")
        for field in msgspec.structs.fields(verb.request)
        if (said := _comment(verb.request, field.name))
    ]
    where = WHERE[verb.access.by_session] if verb.access.near else ""
    parts = [textwrap.fill(first, WIDTH - 8), more, f"For {verb.access.who.value}{where}.", "\n".join(fields)]
    return '"""' + "\n\n".join(part for part in parts if part) + '\n"""'


def _comment(structure: type[msgspec.Struct], field: str) -> str:
    """Return the comment behind a field, as the page of the protocol shows it."""
    from documents.protocol_tables import comment_of

    return comment_of(structure, field).replace("null", "None")


# ---------------------------------------------------------------- options

_NAMES = "str | Sequence[str]"
_FORMS = {
    "text": "str", "flag": "bool", "whole": "int", "names": _NAMES, "nodes": _NAMES, "patterns": _NAMES,
    "pairs": "Mapping[str, str | int]", "jobs": "JobReference | Sequence[JobReference]",
    "dependencies": _NAMES, "named_jobs": "Sequence[Mapping[str, str]]", "edges": _NAMES,
    "span": "str | timedelta",
    "moment": "str | float | datetime | timedelta", "memory": "str", "speed": "str", "priority": "str | int",
    "bounds": "int | str", "at_least": "int | str", "memory_bounds": "str",
    "codes": "int | str | Sequence[int | str]", "licences": f"Mapping[str, int | str] | {_NAMES}",
    "order": _NAMES, "group_op": "str", "type": "str", "sweep": "int | str | range",
    "held": "Mapping[str, str]", "features": "str | Sequence[str | Sequence[str]]",
    "limits": "Mapping[str, int | str]", "distribution": "Mapping[str, Any]",
    **dict.fromkeys(("staged_in", "staged_out"), "Mapping[str, str] | Sequence[Mapping[str, Any]]"),
}  # fmt: skip
"""The Python types of the values of an option, by its form in the catalogue."""


def _options() -> str:
    jobs_forms = {option.key: option.form for option in OPTIONS_OF_JOBS}
    task_forms = {option.key: option.form for option in OPTIONS_OF_TASKS}
    job_rows = {key: (jobs_forms[key], row.help) for key, row in JOB_KEYS.items()}
    task_rows = {key: (task_forms[key], row.help) for key, row in TASK_KEYS.items()}
    single = {key: task_rows[key] for key in TASK_ONLY if key != "command"}
    about = "The options of jobs and tasks by their names in the native form, with the types of their values."
    return "\n".join([
        f'"""{about}\n\n{PRINTED}\n"""\n',
        "from collections.abc import Mapping, Sequence\nfrom datetime import datetime, timedelta",
        "from pathlib import PurePath",
        "from typing import Any, Protocol, TypedDict\n\n",
        'class NumberedJob(Protocol):\n    """A job of the SDK."""\n',
        '    @property\n    def id(self) -> int:\n        """Return the number of the job."""\n\n',
        "JobReference = int | str | NumberedJob",
        '"""A job by its number, by its name in the same file, or as the SDK has it."""\n\n',
        _typed_dict("TaskOptions", "dict", "Options of a task.", task_rows),
        _typed_dict("JobOptions", "dict", "Options of a job.", job_rows),
        _typed_dict("SingleTaskOptions", "JobOptions", "Options of a job with one task.", single),
    ])  # fmt: skip


def _typed_dict(name: str, base: str, about: str, rows: Mapping[str, tuple[str, str]]) -> str:
    lines = [f"    {key}: {_type_of(key, form)}  # {text}" for key, (form, text) in rows.items()]
    parent = "TypedDict" if base == "dict" else base
    return f'class {name}({parent}, total=False):\n    """{about}"""\n\n' + "\n".join(lines) + "\n\n"


def _type_of(key: str, form: str) -> str:
    return "str | PurePath" if key in ("work_directory", "stdin", "stdout", "stderr") else _FORMS[form]


if __name__ == "__main__":
    for path, text in printed_files().items():
        path.write_text(text)
