"""Work that is shared by processes."""

import os
import signal

from headnode.apps.simulate.predictions import side_by_side


def test_each_share_is_done_by_a_process_of_its_own_and_none_is_left() -> None:
    found = side_by_side(lambda share: (share, os.getpid()), range(3))
    assert found is not None
    assert [share for share, _ in found] == [0, 1, 2]
    assert len({process for _, process in found}) == 3
    assert not _children()


def test_a_killed_process_is_reported_by_none_and_no_other_is_left() -> None:
    def work(share: int) -> int:
        if share == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if share == 2:
            signal.pause()
        return share

    assert side_by_side(work, range(3)) is None
    assert not _children()


def _children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
