"""A filter that cannot be run for want of room refuses its job, which else would wait for it for ever."""

import shutil
from pathlib import Path

import pytest
from test_filters_live import site, submit

from headnode.core.model.errors import HeadnodeError


def test_a_job_is_refused_and_the_next_is_not_when_the_job_file_of_a_filter_cannot_be_written(
    tmp_path: Path,
) -> None:
    with site(tmp_path) as here:
        here.set(SubmissionFilterProgram=here.filter("accept", "exit 0\n"))
        submit(here)
        papers = here.head.state / "filter-papers"
        shutil.rmtree(papers)
        with pytest.raises(HeadnodeError, match=r"could not be run.*filter-papers"):
            submit(here)
        papers.mkdir(mode=0o700)
        submit(here)
