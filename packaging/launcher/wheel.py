"""Put the launcher into wheels as the command `hn`: then they are of one platform."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PURE = "HEADNODE_PURE_WHEEL"  # 1: build the wheel for every platform, whose `hn` is a script
MANYLINUX = "manylinux_2_17"  # the oldest that pip knows for all processors; a static program needs none


class LauncherHook(BuildHookInterface):  # type: ignore[type-arg]
    """Build the launcher for a wheel; without a C compiler the wheel is pure, and `hn` is a script.

    A launcher that is linked statically runs on each Linux of its processor.  Another needs the C library of
    the machine that built it: its wheel has the tag that no index accepts.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the program that becomes `hn`, and the tag of the wheel."""
        self.folder = Path(tempfile.mkdtemp(prefix="headnode-launcher-"))
        launcher = self.folder / "hn"
        if os.environ.get(PURE, "0") in {"", "0"} and self._is_built(launcher):
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            if _is_static(launcher):
                platform = platform.replace("linux", MANYLINUX, 1)
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False
        else:
            launcher = Path(self.root) / "scripts" / "hn"
        build_data["shared_scripts"][str(launcher)] = "hn"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was built: it is in the wheel."""
        shutil.rmtree(self.folder)

    def _is_built(self, launcher: Path) -> bool:
        build = Path(self.root) / "packaging" / "launcher" / "build"
        done = subprocess.run([build, launcher], capture_output=True, text=True, check=False)
        if done.returncode:
            self.app.display_warning(done.stderr.strip())
        return done.returncode == 0


def _is_static(program: Path) -> bool:
    """Return whether an ELF file names no interpreter (elf(5), PT_INTERP): the loader of the C library."""
    return b"/ld-" not in program.read_bytes()[:4096]
