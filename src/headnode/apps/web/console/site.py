"""The addresses of the console: which function shows each page, and which carries out each action."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import FormData
from starlette.responses import Response

from headnode.apps.web.console.visit import Model, PageMessage, Visit


class GoTo(NamedTuple):
    """The answer to an action, or to a search: go to another page, with a message there."""

    path: str
    message: PageMessage | None = None


class FormAgain(NamedTuple):
    """The answer to an action with a wrong field: its form again, with the error at the field."""

    template: str
    model: Model
    status: int = 422


ShowPage = Callable[[Visit], Awaitable[Model | GoTo | Response]]
CarryOut = Callable[[Visit, FormData], Awaitable[GoTo | FormAgain | Response]]


class ConsolePage(NamedTuple):
    """A page: its address, its template, and what makes its model."""

    path: str
    template: str
    show: ShowPage


class ConsoleAction(NamedTuple):
    """Something that a form does."""

    path: str
    carry_out: CarryOut


def texts(form: FormData | Mapping[str, str], name: str) -> str:
    """Return a field of a form as text, "" when it is missing or a file."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def numbers(values: Sequence[object]) -> list[int]:
    """Return those of the values that are whole numbers of up to 15 digits, each once, in their order."""
    found = [int(v) for v in values if isinstance(v, str) and v.isascii() and v.isdigit() and len(v) < 16]
    return list(dict.fromkeys(found))
