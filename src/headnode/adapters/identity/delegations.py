"""The credentials for storage that users leave with the head, for their jobs: X.509 proxies and tokens.

They are in a file beside the journal, never in it: what is forgotten is overwritten.
Source:  RFC 3820, "Proxy Certificates"; Pilot service, delegations.
"""

import contextlib
import re
import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.files.copied_tables import DELEGATIONS, RowChanges, opened
from headnode.core.model.errors import BadRequest, NotFound

MAX_OF_USER = 100
_KEY_BEGINS = re.compile(rb"-----BEGIN ([A-Z ]{0,20}PRIVATE KEY-----)")


class Delegation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A credential of a user: a proxy in PEM, or a token for `hosts`.  `expires` in seconds since 1970.

    With a job it is forgotten when that is over.  It is not printed.
    """

    owner: str
    name: str
    expires: float
    proxy: str = ""
    token: str = ""
    hosts: tuple[str, ...] = ()
    job: int | None = None

    def __repr__(self) -> str:
        return f"Delegation({self.owner!r}, {self.name!r})"

    @property
    def values(self) -> dict[str, Any]:
        """What a file of credentials with it would say."""
        return {"proxy_text": self.proxy} if self.proxy else {"token": self.token, "hosts": [*self.hosts]}


class DelegationStore:
    """The file, which only the head can read.  It is made when the first delegation is kept."""

    def __init__(self, state: Path, changes: RowChanges | None = None) -> None:
        """`changes` is told which rows change."""
        self._state, self._changes = state, changes or RowChanges()
        self._path = state / DELEGATIONS.file

    def keep(self, delegation: Delegation) -> None:
        """Keep a delegation, in place of one of the same name.

        Raises:  BadRequest ``delegations`` when the user has too many.
        """
        with self._database() as database:
            others = "select count(*) from delegations where owner = ? and name <> ?"
            (count,) = database.execute(others, (delegation.owner, delegation.name)).fetchone()
            if count >= MAX_OF_USER:
                what = f"{delegation.owner!r} has {count} delegations"
                raise BadRequest(code="delegations", what=what, fix="delete those that are not needed")
            kept = msgspec.msgpack.encode(delegation)
            row = (delegation.owner, delegation.name, delegation.job, delegation.expires, kept)
            database.execute("insert or replace into delegations values (?, ?, ?, ?, ?)", row)
        self._changes.stored(DELEGATIONS, row)

    def all_of(self, owner: str, now: float) -> list[Delegation]:
        """Return the delegations of a user that have not expired, by name."""
        wanted = "select kept from delegations where owner = ? and expires > ? order by name"
        return [msgspec.msgpack.decode(row[0], type=Delegation) for row in self._rows(wanted, owner, now)]

    def get(self, owner: str, name: str, now: float) -> Delegation:
        """Return a delegation of a user.

        Raises:  NotFound ``no-delegation`` when it is not there, or has expired.
        """
        for one in self.all_of(owner, now):
            if one.name == name:
                return one
        raise NotFound(
            code="no-delegation",
            what=f"{owner!r} has no delegation {name[:64]!r}, or it has expired",
            fix="create or renew it: PUT /pilot/delegations/NAME",
        )

    def forget(self, owner: str, name: str) -> None:
        """Forget a delegation."""
        if self._path.exists():
            with self._database() as database:
                database.execute("delete from delegations where owner = ? and name = ?", (owner, name))
            self._changes.removed(DELEGATIONS, (owner, name))

    def jobs(self) -> list[int]:
        """Return the jobs for which delegations are kept."""
        return [row[0] for row in self._rows("select distinct job from delegations where job is not null")]

    def forget_old(self, now: float, over: Collection[int] = ()) -> None:
        """Forget what has expired, and what was kept for jobs that are over."""
        if not self._path.exists():
            return
        with self._database() as database:
            rows = database.execute("select owner, name, job, expires from delegations").fetchall()
            jobs = frozenset(over)
            old = [(owner, name) for owner, name, job, expires in rows if expires <= now or job in jobs]
            database.executemany("delete from delegations where owner = ? and name = ?", old)
        for key in old:
            self._changes.removed(DELEGATIONS, key)

    def _rows(self, question: str, *values: object) -> list[Sequence[Any]]:
        if not self._path.exists():
            return []
        with self._database() as database:
            return database.execute(question, values).fetchall()

    def _database(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return opened(self._state, DELEGATIONS)


def proxy_end(proxy: str) -> float:
    """Return when a proxy expires: the first of its certificates to do so, in seconds since 1970.

    Raises:  BadRequest ``proxy`` when it is no certificate with its key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = proxy.encode()
    try:
        chain = x509.load_pem_x509_certificates(text)
        # To test whether a number of 16,384 bits is prime would take the head seconds.
        key = load_pem_private_key(_first_key(text), None, unsafe_skip_rsa_key_validation=True)
        mine = key.public_key()
        fits = mine == chain[0].public_key()
    except (ValueError, TypeError):  # what is wrong may be the key: it is not told
        fits = False
    if not fits:
        fix = "send the file of grid-proxy-init: certificate, key without a password, and chain"
        raise BadRequest(
            code="proxy", what="the proxy is not a certificate with its key in PEM", fix=fix, path=("proxy",)
        )
    return min(each.not_valid_after_utc.timestamp() for each in chain)


def _first_key(text: bytes) -> bytes:
    """Return the first private key in PEM, or what begins like one.  Cost: O(length)."""
    begins = _KEY_BEGINS.search(text)
    if begins is None:
        return b""
    ends = b"-----END " + begins[1]
    end = text.find(ends, begins.end())
    return text[begins.start() : end + len(ends)] if end >= 0 else b""
