"""Commands of a scheduler whose answers are lost, late, cut or wrong as often as a test says."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

RUDE = """#!/bin/bash
# {name}, of whose answers some are lost, late, cut or wrong: {directory}/rude says how many of 256.
read -r rude < {directory}/rude
(( RANDOM % 256 < rude * {share} / 100 )) || exec {real} "$@"
fault() {{ echo "{name} $1" >> {directory}/faults; }}
silence() {{ echo '{name}: error: Socket timed out on send/recv operation' >&2; exit 1; }}
kinds=({kinds})
case ${{kinds[RANDOM % ${{#kinds[@]}}]}} in
  0) fault 'not done'; silence;;
  1) fault 'answer lost'; {real} "$@" > /dev/null 2>&1; silence;;
  2) fault 'done after its answer'
     exec 3<&0  # of what runs in the background, a shell takes standard input away
     (sleep 1; exec {real} "$@" <&3) > /dev/null 2>&1 &
     silence;;
  3) fault slow; sleep $((RANDOM % 3)).$((RANDOM % 10)); exec {real} "$@";;
  4) fault 'killed after it'; {real} "$@" > /dev/null 2>&1; kill -9 $$;;
  5) fault 'killed while it answers'; {real} "$@" 2> /dev/null | head -c $((RANDOM % 400)); kill -9 $$;;
  6) fault cut; said=$({real} "$@" 2> /dev/null; echo .); said=${{said%.}}
     printf %s "${{said:0:$((${{#said}} > 1 ? RANDOM % (${{#said}} - 1) + 1 : 0))}}"; exit 0;;
  7) fault garbage; {real} "$@" > /dev/null 2>&1; tr -dc 'a-z<>%\\200-\\377' < /dev/urandom | head -c 300
     exit 0;;
  8) fault 'wrong status'; {real} "$@" 2> /dev/null
     echo '{name}: error: Unable to contact its server (connect failure)' >&2; exit 1;;
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
            kinds = "0 3 4" if name == "dd" else "0 1 2 3 4 5 6 7 8"  # a file is read or not
            share = 30 if name == "dd" else 100  # of each job files are read often
            path.write_text(
                RUDE.format(name=name, directory=self.directory, real=words, kinds=kinds, share=share)
            )
            path.chmod(0o755)
        for name in ("faults", "rude"):
            (self.directory / name).write_text("")
            (self.directory / name).chmod(0o666)
        self.be_rude(0.0)

    def be_rude(self, share: float) -> None:
        """Lose, delay, cut or replace this share of the answers from now on."""
        new = self.directory / "rude.new"
        new.write_text(f"{round(share * 256)}\n")
        new.chmod(0o666)
        new.rename(self.directory / "rude")  # a command may read it now

    def faults(self) -> Counter[str]:
        """Return how often each command did what it should not."""
        return Counter((self.directory / "faults").read_text().splitlines())
