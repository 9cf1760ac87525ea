"""What the parameters of the cluster name and the machine of a standby does not have: programs and files."""

import asyncio
import contextlib
import os
import pwd
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from headnode.adapters.files.local_daemons import GATEWAY_USER, remembered_word
from headnode.adapters.files.owners import why_not_run, why_not_trusted
from headnode.adapters.filters.plug_ins import installed
from headnode.adapters.installed_packages import offered
from headnode.adapters.policy_plug_ins import GROUP as POLICIES_OF_SITE
from headnode.core.filtering import read_filters
from headnode.core.model.errors import BadRequest
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.templates import ACTIVATION, SUBMISSION
from headnode.engine.settings import Settings

FILES: Final = ("EmailCredentialsFile", "BankKeyFile", "EventWebhookSecretFile")
MAX_LOOK: Final = 5.0  # seconds; a file system may hang
_GATEWAY: Final = "gateway-user"  # the option of hn up
MAX_NAMED: Final = 8  # things that are missing

_Name = tuple[str, str]
"""What names something, and what it names."""


class MissingHere:
    """Looks for what the cluster needs, in a thread that nobody waits for at the end: never two at once."""

    def __init__(self, cluster: Callable[[], ClusterState | None], standby: str, state: Path) -> None:
        self._cluster, self._standby, self._state = cluster, standby, state
        self.sentences: tuple[str, ...] = ()
        self._looking: asyncio.Event | None = None  # set once the thread has an answer

    async def look(self) -> tuple[str, ...]:
        """Return what is missing, in sentences, or that a file system hangs."""
        if self._looking is None:
            if (cluster := self._cluster()) is None:
                return ()
            self._looking = asyncio.Event()
            named = (*named_by(cluster), *account_named(self._state))
            words = named, asyncio.get_running_loop()
            threading.Thread(target=self._find, args=words, daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_LOOK):
                await self._looking.wait()
                return self.sentences
        self.sentences = (
            f"it is not known whether {self._standby} has the programs of the site: a file system hangs",
        )
        return self.sentences

    def _find(self, named: tuple[_Name, ...], loop: asyncio.AbstractEventLoop) -> None:
        try:
            troubles = shortened(missing(named, self._standby))
        except (OSError, ValueError) as error:
            troubles = (f"it is not known whether {self._standby} has the programs of the site: {error}",)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._found, troubles)

    def _found(self, sentences: tuple[str, ...]) -> None:
        self.sentences = sentences
        if self._looking is not None:
            self._looking.set()
            self._looking = None


def named_by(cluster: ClusterState) -> Iterator[_Name]:
    """Yield the parameters, templates and resources that name something, and what."""
    settings = Settings(cluster.parameters)
    for parameter in (SUBMISSION, ACTIVATION, "LicenceProgram", "SchedulingPolicy", *FILES):
        if value := settings.text(parameter):
            yield parameter, value
    for name, template in cluster.templates.items():
        for chain, parameter in (
            (template.submission_filters, SUBMISSION),
            (template.activation_filters, ACTIVATION),
        ):
            if chain:
                yield f"{parameter} of template {name}", chain
    for resource in cluster.resource_index.named.values():
        if resource.programs and not resource.host:  # else they are on that host
            yield f"resource {resource.name}", resource.programs


def account_named(state: Path) -> Iterator[_Name]:
    """Yield the option that names the account of the gateway, and the account, if there is one."""
    with contextlib.suppress(OSError, UnicodeError):  # the head has none, or it is told in the log
        if name := remembered_word(state / GATEWAY_USER, ""):
            yield _GATEWAY, name


def missing(named: tuple[_Name, ...], standby: str) -> list[str]:
    """Return what of this is not on this machine, or cannot be used here, in sentences."""
    problems = []
    for name, value in named:
        for what, why_not in _troubles(name, value):
            problems.append(
                f"{name}: on {standby}, {why_not}" if why_not else f"{name}: {what} is not on {standby}"
            )
    return problems


def _troubles(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield what is missing here, or cannot be used, and why."""
    if name.startswith((SUBMISSION, ACTIVATION)):
        try:
            chain = read_filters(value)
        except BadRequest as error:
            yield value, error.what
            return
        for each in chain:
            if each.program:
                yield from _of_file(each.program[0], why_not_run(each.program))
            elif each.plug_in not in installed():
                yield f"plug-in {each.plug_in}", ""
    elif name == _GATEWAY:
        try:
            pwd.getpwnam(value)
        except (KeyError, ValueError):
            yield f"account {value}", ""
    elif name == "LicenceProgram":
        argv = shlex.split(value)
        yield from _of_file(argv[0], why_not_run(argv))
    elif name == "SchedulingPolicy":
        if value not in POLICIES and value not in {point.name for point in offered(POLICIES_OF_SITE)}:
            yield f"policy {value}", ""
    else:
        yield from _of_file(value, why_not_trusted(value))


def _of_file(path: str, why_not: str) -> Iterator[tuple[str, str]]:
    if not os.path.exists(path):  # noqa: PTH110 (Path.exists raises if a directory is closed)
        yield path, ""
    elif why_not:
        yield path, why_not


def shortened(sentences: list[str]) -> tuple[str, ...]:
    """Return the first sentences, and how many more there are."""
    more = len(sentences) - MAX_NAMED
    return (*sentences[:MAX_NAMED], *([f"and {more} more"] if more > 0 else []))
