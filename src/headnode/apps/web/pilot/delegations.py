"""Delegations of the grid service: proxies and tokens that the head keeps for the transfers of jobs.

The secrets go on to the head and are kept nowhere here.
Source:  Pilot service, "delegations": a job is created with a delegation or with a proxy of its own.
"""

import secrets
from typing import Any, Final

from headnode.apps.web.pilot.grid_jobs import GridJob, Object, time_text
from headnode.apps.web.pilot.requests import GridReply, GridRequest
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import HeadnodeError, NotFound, Refused

NAMED, PROXY, TOKEN = "delegation_id", "proxy", "token"
CREDENTIALS: Final = (NAMED, PROXY, TOKEN)
"""The keys of a job's request that say with what its files are transferred."""
_OF_TOKEN: Final = ("token", "hosts", "lifetime")


def credential_in(body: Object) -> Object | None:
    """Return the delegation in the request of a job as fields for the head; None if there is none.

    Raises:  BadRequest ``body``.
    """
    named = [name for name in CREDENTIALS if name in body]
    if len(named) > 1:
        raise wrong("body", f"both {named[0]} and {named[1]} are given", "send one of them", (named[1],))
    match [(name, body[name]) for name in named]:
        case []:
            return None
        case [("delegation_id", str(name))]:
            return {"name": name}
        case [("proxy", str(text))]:
            return {"name": f"job-{secrets.token_hex(12)}", "proxy": text}
        case [("token", dict(token))]:
            return {"name": f"job-{secrets.token_hex(12)}", **_token(token)}
    fix = 'send "delegation_id": ID, "proxy": PEM, or "token": {"token": ..., "hosts": [...]}'
    raise wrong("body", f"{named[0]} is not understood", fix, (named[0],))


def _token(body: Object) -> Object:
    """Return the fields of a token; the head checks their values.

    Raises:  BadRequest ``body``.
    """
    strange = next((name for name in body if name not in _OF_TOKEN), None)
    if strange is not None:
        fix = f"the keys are {', '.join(_OF_TOKEN)}"
        raise wrong("body", f"{strange[:64]!r} is not known in a token", fix, (TOKEN, strange))
    return _for_head(body)


def _for_head(body: Object) -> Object:
    """Return a token as the head calls it: its audit log has what is called `token`."""
    return {"bearer" if name == TOKEN else name: value for name, value in body.items()}


async def refuse_unknown(request: GridRequest, credential: Object | None) -> None:
    """Refuse the id of a delegation that is not there.

    Raises:  NotFound ``no-delegation``.
    """
    if credential is not None and len(credential) == 1:
        await _found(request, credential["name"])


async def keep_for_job(request: GridRequest, credential: Object | None, job: int) -> None:
    """Leave the proxy or token of a job with the head until the job is over; cancel the job without it.

    Raises:  what refuses it.
    """
    if credential is None or len(credential) == 1:
        return
    try:
        await request.ask("keep_delegation", job=job, **credential)
    except HeadnodeError:
        await request.ask("cancel_job", job=job, message="its proxy or token was refused")
        raise


async def renew_for_job(request: GridRequest, job: GridJob, credential: Object) -> None:
    """Replace the delegation of a job; a job without one gets it while it is new.

    Raises:  what refuses it; BadRequest ``not-new``.
    """
    known = await job.credential()
    if len(credential) > 1 and known:
        mine = [one for one in await _all(request) if one["name"] == known]
        kept = mine[0]["job"] if mine else job.id
        await request.ask("keep_delegation", **{**credential, "name": known, "job": kept})
        return
    await refuse_unknown(request, credential)
    try:
        await request.ask("modify_job", job=job.id, terms={"credential": credential["name"]})
    except Refused as refused:
        what = f"job {job.id} has no proxy or token that could be renewed: {refused.what}"
        raise wrong("not-new", what, "create a new job") from None
    if len(credential) > 1:
        await request.ask("keep_delegation", job=job.id, **credential)


async def delegations(request: GridRequest) -> GridReply:
    """List the delegations of the user."""
    return GridReply([_shown(request, one) for one in await _all(request)])


async def delegation(request: GridRequest) -> GridReply:
    """Show a delegation without its secret."""
    return GridReply(_shown(request, await _found(request, request.path("delegation"))))


async def keep(request: GridRequest) -> GridReply:
    """Create a delegation, or put another proxy or token in its place."""
    name = request.path("delegation")
    known = [one for one in await _all(request) if one["name"] == name]
    return await _kept(request, name, known[0]["job"] if known else None, 200 if known else 201)


async def renew(request: GridRequest) -> GridReply:
    """Put another proxy or token in place of one that is there."""
    known = await _found(request, request.path("delegation"))
    return await _kept(request, known["name"], known["job"], 200)


async def forget(request: GridRequest) -> GridReply:
    """Forget a delegation."""
    await request.ask("forget_delegation", name=request.path("delegation"))
    return GridReply(None)


async def _kept(request: GridRequest, name: str, job: int | None, status: int) -> GridReply:
    body = request.json_object(optional=(PROXY, *_OF_TOKEN))
    kept = await request.ask("keep_delegation", **{**_for_head(body), "name": name, "job": job})
    credential = _shown(request, kept)
    return GridReply(credential, status, {"location": credential["uri"]})


async def _all(request: GridRequest) -> list[Object]:
    found: list[Object] = (await request.ask("delegations"))["delegations"]
    return found


async def _found(request: GridRequest, name: Any) -> Object:
    for one in await _all(request):
        if one["name"] == name:
            return one
    raise NotFound(
        code="no-delegation",
        what=f"you have no delegation {str(name)[:64]!r}",
        fix="create it: PUT /pilot/delegations/NAME",
    )


def _shown(request: GridRequest, one: Object) -> Object:
    return {
        "uri": request.uri(f"delegations/{one['name']}/"),
        "delegation_id": one["name"],
        "kind": one["kind"],
        "hosts": one["hosts"],
        "expires": time_text(one["expires"]),
        **({} if one["job"] is None else {"job": request.uri(f"jobs/{one['job']}/")}),
    }
