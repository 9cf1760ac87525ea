"""The Torque commands of Slurm, unpacked for a test: their package excludes that of Grid Engine.

Source:  Debian, slurm-wlm-torque.
"""

import shutil
import subprocess
from pathlib import Path

from testbed.debian_packages import CannotInstall, install
from testbed.slurm_peer import SlurmPeer

PACKAGE = "slurm-wlm-torque"
NEEDED = ("libslurm-perl", "libslurmdb-perl", "libswitch-perl")
MODULES = ("-MSlurm", "-MSlurmdb", "-MSwitch")  # that these packages have
NAMES = ("qsub", "qstat", "qdel", "qhold", "qrls", "qalter")
DOWNLOADING = 120.0  # seconds


def torque_commands(peer: SlurmPeer) -> Path:
    """Return the directory of commands that speak as Torque to a Slurm.

    Raises:  CannotInstall.
    """
    words = ["perl", *MODULES, "-e", "1"]
    loads = subprocess.run(words, env=peer.environment, capture_output=True, check=False)
    if loads.returncode:
        install(*NEEDED)
    folder = peer.directory / "torque"
    folder.mkdir()
    words = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=DOWNLOADING, check=False)
    found = list(folder.glob("*.deb"))
    if done.returncode or len(found) != 1:
        raise CannotInstall(f"apt-get download {PACKAGE} fails here")
    subprocess.run(["dpkg", "-x", str(found[0]), str(folder / "all")], check=True, timeout=DOWNLOADING)
    programs = folder / "programs"
    programs.mkdir()
    for name in NAMES:
        real = folder / "all/usr/bin" / name
        path = programs / name
        path.write_text(f'#!/bin/sh\nexport SLURM_CONF={peer.settings}\nexec {real} "$@"\n')
        path.chmod(0o755)
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise CannotInstall("sbatch is not installed")
    (folder / "all/usr/bin/sbatch").symlink_to(sbatch)  # qsub calls the one beside it
    return programs
