"""What installed packages offer: their entry points.

`importlib.metadata` takes 25 ms to import, and looks into every package twice: with 175 packages this was a
quarter of the start of a head.  It is used only if a package may offer something.
"""

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_INFORMATION = (".dist-info", ".egg-info")  # how directories with metadata of packages end


def offered(group: str) -> "tuple[EntryPoint, ...]":
    """Return the entry points of this group: those that `importlib.metadata.entry_points` returns."""
    in_other_ways = any(
        finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path
    )
    places = dict.fromkeys(map(str, sys.path))
    if not in_other_ways and not any(_may_offer(place, group.encode()) for place in places):
        return ()
    from importlib.metadata import entry_points  # see above

    return tuple(entry_points(group=group))


def _may_offer(place: str, group: bytes) -> bool:
    """Return False if no package in this place, an entry of `sys.path`, names the group."""
    try:
        names = os.listdir(place or ".")  # noqa: PTH208  (Path takes three times as long)
    except (FileNotFoundError, PermissionError):
        return False
    except OSError:  # an archive, which importlib looks into
        return True
    if place.casefold().endswith(".egg"):
        return True
    folders = (name for name in names if name.casefold().endswith(_INFORMATION))
    return any(_contains(f"{place or '.'}/{name}/entry_points.txt", group) for name in folders)


def _contains(file: str, group: bytes) -> bool:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123  (as above)
            return group in opened.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return False
