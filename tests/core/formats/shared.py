"""Where the files are that are not part of the project: beside it, or nowhere."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared"
SAMPLES = sorted((SHARED / "samples" / "ccs").glob("*.xml"))
SEED = next(iter((SHARED / "seeds").glob("000*")), None)

needs_samples = pytest.mark.skipif(not SAMPLES, reason="the sample job files are not beside the repository")
needs_seed = pytest.mark.skipif(
    SEED is None, reason="the document with the schemas is not beside the repository"
)
