"""The head, the agent and `hn` import nothing that they need for other doors or other machines only."""

import subprocess
import sys

import pytest

MODULES = {
    "head": (
        "headnode.apps.server.main",
        "headnode.apps.server.doors.network",
        "headnode.apps.server.doors.tls",
    ),
    "agent": ("headnode.apps.agent.main",),
    "hn": (
        "headnode.apps.cli.__main__",
        "headnode.apps.cli.commands.web",
        "headnode.apps.cli.commands.services",
    ),
}
OF_THE_WEB = (
    "starlette",
    "uvicorn",
    "jinja2",
    "h11",
    "anyio",
    "pamela",
    "python_multipart",
    "headnode.apps.web",
)


def imported(modules: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """Return which of the names a process has imported after these modules."""
    imports = "\n".join(f"import {module}" for module in modules)
    look = f"import sys\n{imports}\nprint(*[name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("process", MODULES)
def test_a_process_imports_nothing_of_the_web(process: str) -> None:
    assert imported(MODULES[process], OF_THE_WEB) == []


@pytest.mark.parametrize("process", ["headnode.apps.server.main", "headnode.apps.agent.main"])
def test_a_cluster_of_one_machine_imports_no_certificates(process: str) -> None:
    assert imported((process,), ("cryptography", "headnode.adapters.wire.tls")) == []


def test_a_job_file_in_the_native_form_is_recognized_without_importing_another_language() -> None:
    """To import grid JSON took a head longer than to read 500 tasks."""
    file = '{"tasks": [{"command": "/bin/true", "name": "first"}]}'
    read = f"from headnode.core.formats import dialects; print(dialects.read({file!r}).dialect)"
    look = f"{read}; import sys; print('headnode.core.formats.grid' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["native-json", "False"]
