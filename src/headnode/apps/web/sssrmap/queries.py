"""Queries of any kind of objects: what is collected of the head is filtered, sorted and summed up."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from headnode.apps.web.sssrmap.service import Function, RmapCall, in_turn
from headnode.core.formats.sss.sssrmap.joins import (
    JoinSide,
    answer_join,
    conditions_alone,
    named_of,
    refuse_wrong_join,
)
from headnode.core.formats.sss.sssrmap.messages import (
    RmapRequest,
    RmapResponse,
    RmapStatus,
    content_of,
    elements,
)
from headnode.core.formats.sss.sssrmap.paths import read_path
from headnode.core.formats.sss.sssrmap.queries import answer_query, row_name, unknown_options
from headnode.core.formats.sss.sssrmap.spellings import PeerNames, peer_names, respelling
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.xml_text import XmlElement


class SharedObjects(list[XmlElement]):
    """Objects that many queries share, and what was answered about them: polls ask the same again."""

    def __init__(self, objects: Iterable[XmlElement]) -> None:
        super().__init__(objects)
        self.answers: dict[object, list[XmlElement]] = {}

    def keep(self, question: object, rows: list[XmlElement]) -> list[XmlElement]:
        """Return an answer as text; the text is kept for the next equal request."""
        if len(self.answers) >= MAX_ANSWERS or len(rows) > MAX_KEPT:
            return rows
        copies = [XmlElement(row.name, row.attributes, [content_of(row)]) for row in rows]
        self.answers[question] = copies
        return copies


class Collected(NamedTuple):
    """Objects that may fulfil a query, in the names of the peer."""

    objects: Sequence[XmlElement]
    whole: bool = True  # these are all that there are
    hidden: Sequence[str] = ()  # names, in small letters, that are told only when they are asked for


MAX_ANSWERS: Final = 16  # about the same objects that are kept
MAX_KEPT: Final = 2000  # rows of one of them
Collector = Callable[[RmapCall], Awaitable[Collected]]


def query_of(collect: Collector) -> Function:
    """Return the action that tells which objects fulfil the conditions, and what is asked of them."""

    async def query(call: RmapCall) -> RmapResponse:
        found = await collect(call)
        request, objects = call.request, found.objects
        question = (request.gets, request.wheres, request.options, request.count)
        shared = objects if isinstance(objects, SharedObjects) else None
        if shared is not None and (known := shared.answers.get(question)) is not None:
            return _answer(request, known, [found])
        work = partial(answer_query, request, objects, respelling(call.kind, call.names))
        rows = await in_turn(len(objects) * (1 + len(request.gets + request.wheres)), work)
        if not request.gets and found.hidden:
            rows = [_without(row, found.hidden) for row in rows]
        rows = shared.keep(question, rows) if shared is not None else rows
        return _answer(request, rows, [found])

    return query


def join_of(collectors: Mapping[str, Collector]) -> Function:
    """Return the action that answers queries of several kinds of objects."""

    async def query(call: RmapCall) -> RmapResponse:
        request = call.request
        refuse_wrong_join(request)
        parts = [_part(call, place) for place in range(len(request.objects))]
        collected = await asyncio.gather(*(collectors[part.kind](part) for part in parts))
        sides = [
            JoinSide(part.kind, each.objects, respelling(part.kind, part.names))
            for part, each in zip(parts, collected, strict=True)
        ]
        rows = await asyncio.to_thread(answer_join, request, sides)
        if not request.gets:
            rows = [_without(row, [name for each in collected for name in each.hidden]) for row in rows]
        return _answer(request, rows, collected)

    return query


def _part(call: RmapCall, place: int) -> RmapCall:
    """Return the call for what a join needs of one kind of objects."""
    request = call.request
    kind = request.objects[place]
    alone = [msgspec.structs.replace(one, conj="", object="") for one in conditions_alone(request, place)]
    part = RmapRequest(
        action=request.action,
        actor=request.actor,
        objects=(kind,),
        gets=tuple(named_of(request, place)),
        wheres=tuple(alone),
        options=tuple(one for one in request.options if one.name.lower() == "showhidden"),
    )
    return call.part(part, kind, peer_names(part, kind, call.names))


def _without(row: XmlElement, hidden: Sequence[str]) -> XmlElement:
    kept = [one for one in elements(row) if one.name.lower() not in hidden]
    return XmlElement(row.name, row.attributes, [*kept])


def _answer(request: RmapRequest, rows: Sequence[XmlElement], collected: Sequence[Collected]) -> RmapResponse:
    status = RmapStatus(message=f"Successfully queried {len(rows)} {row_name(request)}")
    ignored = unknown_options(request)
    looked = [len(each.objects) for each in collected if not each.whole]
    if ignored or looked:
        code = StatusCode.NOT_UNDERSTOOD if ignored else StatusCode.PARTIAL
        warnings = [f"options without effect: {', '.join(ignored)[:200]}"] if ignored else []
        warnings += [f"only the {max(looked)} newest jobs were looked at"] if looked else []
        status = RmapStatus(str(code), "; ".join(warnings))
    return RmapResponse(status=status, count=len(rows), data=tuple(rows))


def refuse_other_names(call: RmapCall, known: Iterable[str]) -> None:
    """Refuse a query that names a property which no object of its kind has.

    known:  the names of properties in 3.1, and of what is in them
    Raises:  MessageFault 316.
    """
    to_3_1 = respelling(call.kind, PeerNames.V3_1)
    names = {*known, call.kind, "*"}
    for field in (*call.request.gets, *call.request.wheres):
        for name in to_3_1(read_path(field.name).names):
            if name not in names:
                near = nearest_name(name, names)
                raise MessageFault(
                    StatusCode.WRONG_ATTRIBUTE,
                    f"{call.kind} has no property {name[:64]!r}",
                    f"did you mean {near}?" if near else f"it has {', '.join(known)}",
                )
