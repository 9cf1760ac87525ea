"""Lets these tests use the world that the tests of life cycles are told in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "lifecycle"))
