"""Requests with an idempotency key: one that was carried out already is answered again, and makes nothing."""

import hashlib
from typing import Any, Final

import msgspec

from headnode.apps.server.desk import Desk
from headnode.apps.server.verbs_reservations import reservation
from headnode.apps.server.wishes import ReservationWish
from headnode.core.lifecycle.receipts import MAKING, receipt_of
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.receipt import Once, Receipt
from headnode.core.model.user import User

FIELD: Final = "idempotency"
LONGEST_KEY: Final = 64  # characters

Fields = dict[str, Any]


def taken_from(verb: str, fields: Fields) -> tuple[Fields, Once | None]:
    """Return the fields without the key, and the key with a digest of the request.

    Raises:  BadRequest ``idempotency`` for a key that is none, or a verb that makes nothing.
    """
    if FIELD not in fields:
        return fields, None
    rest = {name: value for name, value in fields.items() if name != FIELD}
    key = fields[FIELD]
    if verb not in MAKING:
        raise BadRequest(code="idempotency", what=f"{verb} takes no idempotency key", fix="leave it out")
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise BadRequest(
            code="idempotency",
            what="the idempotency key is not printable text",
            fix=f"use 1 to {LONGEST_KEY} characters, such as a UUID",
        )
    body = msgspec.json.encode([verb, rest], order="deterministic")
    return rest, Once(key, hashlib.sha256(body).digest()[:16], verb)


async def answer_again(desk: Desk, user: User, once: Once, fields: Fields) -> Fields | None:
    """Return the answer to a request that was carried out before; None: it was not.

    Raises:  BadRequest ``idempotency-conflict``; WrongState ``idempotency-secret`` when the answer had a
             secret, which is kept nowhere.
    """
    receipt = receipt_of(desk.cluster, user, once, desk.now())
    if receipt is None:
        return None
    if once.verb in ("submit_job", "submit_group"):
        await desk.passage.wait(receipt.jobs)
    if once.verb == "make_reservation":
        shown = await reservation(desk, user, ReservationWish(name=str(fields.get("name"))))
        return {"ok": True, **shown, "later": [], "repeated": True}
    return {"ok": True, **_made(receipt, fields), "repeated": True}


def _made(receipt: Receipt, fields: Fields) -> Fields:
    jobs = list(receipt.jobs)
    match receipt.verb:
        case "submit_group":
            return {"group": fields.get("group"), "jobs": jobs}
        case "add_tasks":
            return {"job": jobs[0], "tasks": list(range(receipt.first_task, receipt.last_task + 1))}
        case "invite_node" | "new_token":
            raise WrongState(
                code="idempotency-secret",
                what="this request was carried out already, and its answer had a secret that is kept nowhere",
                fix="ask for another one with a new key; the first expires unused",
            )
    more = {"jobs": jobs} if len(jobs) > 1 else {}
    return {"job": jobs[-1], "report": [], **more}
