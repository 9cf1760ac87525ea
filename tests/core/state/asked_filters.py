"""Filters that answer when the test says so, in place of programs."""

from collections.abc import Mapping

from worlds import ROOT, World

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.nodes import SetParameter
from headnode.engine.ports import FilterQuestion

ACTIVATION, SUBMISSION = "ActivationFilterProgram", "SubmissionFilterProgram"


class AskedFilters:
    """Remembers every question, and what was to be undone."""

    def __init__(self) -> None:
        self.questions: list[FilterQuestion] = []
        self.undone: list[int] = []
        self.kept: list[int] = []

    def ask(self, question: FilterQuestion) -> None:
        """Remember a question."""
        self.questions.append(question)

    def done(self, offer: int) -> None:
        """Remember what need not be undone."""
        self.kept.append(offer)

    def undo(self, offer: int) -> None:
        """Remember what was undone."""
        self.undone.append(offer)


class FilteredWorld(World):
    """A world whose jobs of the template ``asked`` pass an activation filter; with `everybody`, all do."""

    def __init__(
        self,
        *processors: int,
        everybody: bool = True,
        policies: Mapping[str, Policy] = POLICIES,
        **settings: str,
    ) -> None:
        super().__init__(*processors, policies=policies)
        self.filters = AskedFilters()
        self.engine.offers.filters = self.filters
        self.set(ActivationFilterProgram="/opt/pool" if everybody else "template=asked /opt/pool", **settings)

    def set(self, **settings: str) -> None:
        """Set cluster parameters."""
        for name, value in settings.items():
            self.do(SetParameter(by=ROOT, name=name, value=value))

    def asked(self, job: JobId) -> FilterQuestion:
        """Return the newest question about a job."""
        return next(q for q in reversed(self.filters.questions) if q.job == job)

    def answer(self, job: JobId, verdict: ActivationVerdict, words: str = "because") -> None:
        """Answer the newest question about a job."""
        question = self.asked(job)
        self.do(
            TakeVerdict(
                job=job,
                offer=question.offer,
                verdict=verdict,
                filter="pool",
                words=words,
                hold=Seconds(900.0),
            )
        )
