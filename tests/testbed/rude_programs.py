"""Commands of a scheduler whose answers are lost, late or wrong as often as a test says."""

from collections.abc import Mapping
from pathlib import Path

RUDE = """#!/bin/sh
# {name}, of which answers are lost, late, or wrong: {directory}/rude says how many of 256.
exec 3>> {directory}/faults
number=$(od -An -N1 -tu1 /dev/urandom)
rude=$(cat {directory}/rude)
[ $number -ge $rude ] && exec {real} "$@"
case $((number % 5)) in
  0) echo {name} lost >&3; echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1;;
  1) echo {name} unanswered >&3; {real} "$@" > /dev/null 2>&1
     echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1;;
  2) echo {name} late >&3
     [ ! -s job ] || {{ cp job job.$$; export RUDE_SCRIPT=job.$$; }}  # who reads it late, reads what it was
     (sleep 1; exec {real} "$@") > /dev/null 2>&1 &
     echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1;;
  3) echo {name} slow >&3; sleep 1; exec {real} "$@";;
  4) echo {name} killed >&3; {real} "$@" > /dev/null 2>&1; kill -9 $$;;
esac
"""


class RudePrograms:
    """A directory of commands that call others; they do so faithfully before `be_rude`."""

    def __init__(self, directory: Path, real: Mapping[str, str]) -> None:
        self.directory, self._real = directory, real  # by name, the words of the command that is meant

    def write(self) -> None:
        """Write the commands anew, and forget the faults."""
        place = self.directory / "programs"
        place.mkdir(exist_ok=True)
        for name, words in self._real.items():
            path = place / name
            path.write_text(RUDE.format(name=name, directory=self.directory, real=words))
            path.chmod(0o755)
        for name in ("faults", "rude"):
            (self.directory / name).write_text("")
            (self.directory / name).chmod(0o666)
        self.be_rude(0.0)

    def be_rude(self, share: float) -> None:
        """Lose or delay this share of the answers from now on."""
        (self.directory / "rude").write_text(str(round(share * 256)))

    def faults(self) -> int:
        """Return how many answers were lost, late or wrong."""
        return len((self.directory / "faults").read_text().splitlines())
