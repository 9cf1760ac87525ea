"""Work without garbage collection leaves the collector as it found it, whether it succeeds or not."""

import gc

import pytest

from headnode.adapters.garbage import without_collection


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_collected_after_the_work_as_before_it_and_never_meanwhile(collecting: bool) -> None:
    had = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        assert without_collection(gc.isenabled) is False
        assert gc.isenabled() is collecting
        with pytest.raises(ValueError, match="invalid literal"):
            without_collection(int, "x", base=10)
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if had else gc.disable)()
