"""The head, the agent and `hn` need nothing of the gateway: its libraries are not even imported."""

import subprocess
import sys

import pytest

MODULES = {
    "head": (
        "headnode.apps.server.main",
        "headnode.apps.server.doors.network",
        "headnode.apps.server.doors.tls",
    ),
    "agent": ("headnode.apps.agent.__main__",),
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


@pytest.mark.parametrize("process", MODULES)
def test_a_process_imports_nothing_of_the_web(process: str) -> None:
    imports = "\n".join(f"import {module}" for module in MODULES[process])
    look = f"import sys\n{imports}\nprint(*[name for name in {OF_THE_WEB} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
