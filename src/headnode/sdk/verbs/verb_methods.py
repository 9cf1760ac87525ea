"""The verbs of the protocol as methods that block or are awaited, by the face of the SDK that has them."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import cached_property, partial
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from headnode.core.model.errors import Unavailable
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest

Answer = TypeVar("Answer", bound=VerbAnswer)
IDEMPOTENCY = "idempotency"
"""The field of a request that creates something: the head carries the requests of one key out once."""


def new_key() -> str:
    """Return an idempotency key that no other request has."""
    return os.urandom(16).hex()


def request_fields(request: VerbRequest, idempotency: str | None = None) -> dict[str, Any]:
    """Return the fields of a request; those that have their defaults are left out."""
    fields: dict[str, Any] = msgspec.to_builtins(request)
    return fields if idempotency is None else {**fields, IDEMPOTENCY: idempotency}


def typed_answer(fields: dict[str, Any], kind: type[Answer]) -> Answer:
    """Return an answer in its type; keys that only a newer head knows are ignored.

    Raises:  Unavailable ``other-version`` if it does not have the type.
    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise Unavailable(
            code="other-version",
            what=f"the answer of the head is not a {kind.__name__}: {error}",
            fix="use the version of the SDK that the head has: hn version",
        ) from None


Parameters = ParamSpec("Parameters")
Declaration = Callable[Concatenate[Any, Parameters], Answer]
"""A method without a body: its parameters are the fields of a request, those without a default first."""


class VerbCaller:
    """What has verbs as methods that block."""


class AsyncVerbCaller:
    """What has verbs as methods that are awaited."""


class _VerbMethod(Generic[Parameters, Answer]):
    """What a declared verb is asked with."""

    def __init__(
        self, declared: Declaration[Parameters, Answer], request: type[VerbRequest], *, creates: bool
    ) -> None:
        self.name, self.__doc__, self.__wrapped__ = declared.__name__, declared.__doc__, declared
        self._request, self._creates = request, creates

    @cached_property
    def answer(self) -> type[Answer]:
        """The type of its answers."""
        answer: type[Answer] = get_type_hints(self.__wrapped__)["return"]
        return answer

    @cached_property
    def _required(self) -> list[str]:
        return [field.name for field in msgspec.structs.fields(self._request) if field.required]

    @cached_property
    def _made_anew(self) -> list[str]:
        """The fields whose defaults are made for each request."""
        fields = msgspec.structs.fields(self._request)
        return [field.name for field in fields if field.default_factory is not msgspec.NODEFAULT]

    def fields(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a request with these arguments; one that creates something has a key.

        Raises:  TypeError when they are not the fields of the request.
        """
        if len(positional) > len(self._required):
            raise TypeError(f"{self.name}() takes {len(self._required)} positional arguments")
        for name in self._made_anew:
            if name in named and named[name] is None:
                del named[name]
        key = named.pop(IDEMPOTENCY, None) or new_key() if self._creates else None
        request = self._request(**dict(zip(self._required, positional, strict=False)), **named)
        return request_fields(request, key)


class AnsweringMethod(_VerbMethod[Parameters, Answer]):
    """A verb that is answered once."""

    @overload
    def __get__(self, verbs: VerbCaller, owner: type | None = None) -> Callable[Parameters, Answer]: ...
    @overload
    def __get__(
        self, verbs: AsyncVerbCaller, owner: type | None = None
    ) -> Callable[Parameters, Coroutine[Any, Any, Answer]]: ...
    def __get__(self, verbs: Any, owner: type | None = None) -> Any:
        """Return the method of `verbs`."""
        return self if verbs is None else MethodType(self, verbs)

    def __call__(self, verbs: Any, *positional: Any, **named: Any) -> Any:
        """Ask for the verb."""
        return verbs._ask(self.name, self.fields(positional, named), self.answer)


class FollowingMethod(_VerbMethod[Parameters, Answer]):
    """A verb that is answered several times, up to an answer that is marked as the last."""

    @overload
    def __get__(
        self, verbs: VerbCaller, owner: type | None = None
    ) -> Callable[Parameters, Generator[Answer, None, None]]: ...
    @overload
    def __get__(
        self, verbs: AsyncVerbCaller, owner: type | None = None
    ) -> Callable[Parameters, AsyncGenerator[Answer, None]]: ...
    def __get__(self, verbs: Any, owner: type | None = None) -> Any:
        """Return the method of `verbs`."""
        return self if verbs is None else MethodType(self, verbs)

    def __call__(self, verbs: Any, *positional: Any, timeout: float | None = None, **named: Any) -> Any:
        """Ask for the verb; yield its answers as they come."""
        return verbs._follow(self.name, self.fields(positional, named), self.answer, timeout)


def verb_of(
    request: type[VerbRequest], *, creates: bool = False
) -> Callable[[Declaration[Parameters, Answer]], AnsweringMethod[Parameters, Answer]]:
    """Make a method from the declaration of a verb.

    creates: it takes an idempotency key, and gets a new one where none is given.
    """
    return partial(AnsweringMethod, request=request, creates=creates)


def updates_of(
    request: type[VerbRequest],
) -> Callable[[Declaration[Parameters, Answer]], FollowingMethod[Parameters, Answer]]:
    """Make a method from the declaration of a verb that is answered with updates; it takes a timeout."""
    return partial(FollowingMethod, request=request, creates=False)
