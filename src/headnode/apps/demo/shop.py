"""The place the demo works in: a folder with copies of the examples, and a cluster's state beside them."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from headnode.core.model.errors import NotFound

EXAMPLES: Final = Path(__file__).parents[4] / "examples"
JOB_FILES: Final = ("sweep/pi.xml", "flow/sort.xml", "parallel/heat.xml")
_AT_HOME: Final = "%USERPROFILE%/headnode-examples"


class Shop:
    """A folder in the system's place for temporary files.  The results in it stay; the state does not."""

    def __init__(self, examples: Path = EXAMPLES) -> None:
        if not all((examples / file).is_file() for file in JOB_FILES):
            raise NotFound(
                code="no-examples",
                what=f"the examples are not in {str(examples)!r}",
                fix="run make demo in a clone of the project",
            )
        self.folder = Path(tempfile.mkdtemp(prefix="headnode-demo-"))
        self.state = self.folder / "state"
        for file in JOB_FILES:
            self._copy(examples, Path(file))

    def _copy(self, examples: Path, file: Path) -> None:
        """Copy an example, and point its job file at the copy instead of the home directory."""
        shutil.copytree(
            examples / file.parent, self.folder / file.parent, ignore=shutil.ignore_patterns("__pycache__")
        )
        job_file = self.folder / file
        job_file.write_text(job_file.read_text().replace(_AT_HOME, str(self.folder)))

    def result(self, file: str) -> str:
        """Return what the job of a job file has written as its result, or why there is nothing."""
        path = (self.folder / file).with_name("result.txt")
        try:
            return path.read_text().strip()
        except OSError as error:
            return f"no result: {error.strerror}"

    def forget_state(self) -> None:
        """Take the cluster's state away; nothing may use it any more."""
        shutil.rmtree(self.state, ignore_errors=True)
