"""Fuzz one parser with atheris: `fuzz.py NAME SECONDS`.  Findings are written into .fuzz/NAME."""

import hashlib
import sys
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit(f"atheris is not there for {sys.executable}: pip install atheris (Linux, Python 3.11 to 3.13)")

with atheris.instrument_imports(include=["headnode.core", "headnode.adapters.wire.sssrmap"]):
    from parsers import PARSERS, seeds, words

_MAX_BYTES, _MAX_MEGABYTES, _MAX_SECONDS = 20_000, 1024, 10


def corpus(name: str) -> Path:
    """Return the folder of what is known to be interesting; what it begins with is put there."""
    folder = Path(".fuzz") / name / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    for text in seeds(name):
        (folder / hashlib.sha256(text).hexdigest()[:16]).write_bytes(text)
    return folder


def dictionary() -> Path:
    """Return the file of names that the fuzzer may put in."""
    file = Path(".fuzz") / "words"
    file.write_text("".join(f'"{word}"\n' for word in sorted(set(words()))))
    return file


def main() -> None:
    """Fuzz until the time is over, or something is found: then the exit status is not 0."""
    name, seconds = sys.argv[1:]
    folder = corpus(name)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_MAX_BYTES}",
        f"-rss_limit_mb={_MAX_MEGABYTES}",
        f"-timeout={_MAX_SECONDS}",
        f"-artifact_prefix={folder.parent}/",
        f"-dict={dictionary()}",
        "-print_final_stats=1",
        "-verbosity=0",
        str(folder),
    ]
    atheris.Setup([sys.argv[0], *options], PARSERS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
