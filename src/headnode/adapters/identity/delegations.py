"""The credentials for storage that users leave with the head, for their jobs: X.509 proxies and tokens.

They are in a file beside the journal, never in it: what is forgotten is overwritten.
Source:  RFC 3820, "Proxy Certificates"; Pilot service, delegations.
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headnode.core.model.errors import BadRequest, NotFound

MOST_OF_USER = 100
_KEY_BEGINS = re.compile(rb"-----BEGIN ([A-Z ]{0,20}PRIVATE KEY-----)")
_TABLE = """
create table if not exists delegations (owner text not null, name text not null, job integer,
    expires real not null, kept blob not null, primary key (owner, name)) without rowid;
"""


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

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, delegation: Delegation) -> None:
        """Keep a delegation, in place of one of the same name.

        Raises:  BadRequest ``delegations`` when the user has too many.
        """
        with self._database() as database:
            others = "select count(*) from delegations where owner = ? and name <> ?"
            (count,) = database.execute(others, (delegation.owner, delegation.name)).fetchone()
            if count >= MOST_OF_USER:
                what = f"{delegation.owner!r} has {count} delegations"
                raise BadRequest(code="delegations", what=what, fix="delete those that are not needed")
            database.execute(
                "insert or replace into delegations values (?, ?, ?, ?, ?)",
                (
                    *(delegation.owner, delegation.name, delegation.job, delegation.expires),
                    msgspec.msgpack.encode(delegation),
                ),
            )

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

    def jobs(self) -> list[int]:
        """Return the jobs for which delegations are kept."""
        return [row[0] for row in self._rows("select distinct job from delegations where job is not null")]

    def forget_old(self, now: float, over: Collection[int] = ()) -> None:
        """Forget what has expired, and what was kept for jobs that are over."""
        if self._path.exists():
            with self._database() as database:
                database.execute("delete from delegations where expires <= ?", (now,))
                database.executemany("delete from delegations where job = ?", [(job,) for job in over])

    def _rows(self, question: str, *values: object) -> list[Sequence[Any]]:
        if not self._path.exists():
            return []
        with self._database() as database:
            return database.execute(question, values).fetchall()

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(self._path, timeout=5.0)) as database, database:
            database.execute("pragma secure_delete = on")
            database.executescript(_TABLE)
            yield database


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
