"""A task has the limits its user logs in with."""

import os
import resource
from pathlib import Path

from headnode.adapters.processes.limits import ProcessLimit, limits_of, lines_of, set_limits

FILE = """
# domain  type  item    value
*         soft  core    0
*         hard  nofile  4096
@physics  soft  nofile  2048
ada       -     nproc   77
ada       soft  cpu     2       # minutes
bob       hard  nproc   1
*         soft  nonsense 3
ada       soft
ada       maybe nproc   5
ada       soft  as      plenty
@physics  hard  memlock unlimited
"""


def test_the_more_special_line_wins_and_units_are_the_systems_own() -> None:
    assert limits_of("ada", ["physics"], FILE.splitlines()) == {
        resource.RLIMIT_CORE: ProcessLimit(0, None),
        resource.RLIMIT_NOFILE: ProcessLimit(2048, 4096),
        resource.RLIMIT_NPROC: ProcessLimit(77, 77),
        resource.RLIMIT_CPU: ProcessLimit(120, None),
        resource.RLIMIT_MEMLOCK: ProcessLimit(None, resource.RLIM_INFINITY),
    }


def test_a_line_for_everybody_after_one_for_the_user_does_not_replace_it() -> None:
    lines = ["ada hard nproc 5", "* hard nproc 9", "* hard nofile 7"]
    assert limits_of("ada", [], lines)[resource.RLIMIT_NPROC] == ProcessLimit(None, 5)


def test_lines_for_everybody_are_not_for_root() -> None:
    assert limits_of("root", [], ["* hard nproc 5", "root hard nofile 9"]) == {
        resource.RLIMIT_NOFILE: ProcessLimit(None, 9)
    }


def test_files_of_the_directory_count_after_the_main_one(tmp_path: Path) -> None:
    (tmp_path / "limits.conf").write_text("ada soft core 1\n")
    (tmp_path / "limits.d").mkdir()
    (tmp_path / "limits.d" / "20.conf").write_text("ada soft core 3\n")
    (tmp_path / "limits.d" / "10.conf").write_text("ada soft core 2\n")
    (tmp_path / "limits.d" / "notes").write_text("ada soft core 4\n")
    assert [line.split()[-1] for line in lines_of(str(tmp_path))] == ["1", "2", "3"]


def test_limits_are_taken_as_far_as_the_system_allows() -> None:
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        set_limits({resource.RLIMIT_NOFILE: ProcessLimit(64, None), resource.RLIMIT_CORE: ProcessLimit(7, 5)})
        found = (*resource.getrlimit(resource.RLIMIT_NOFILE), *resource.getrlimit(resource.RLIMIT_CORE))
        os.write(written, b"ok" if found == (64, hard, 5, 5) else repr(found).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"ok"
    os.close(read)
    os.close(written)
