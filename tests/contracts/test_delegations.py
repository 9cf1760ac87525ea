"""Delegations are kept for their user until they expire or are forgotten, and a proxy is what it says."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headnode.adapters.identity.delegations import MAX_OF_USER, Delegation, DelegationStore, proxy_end
from headnode.core.model.errors import BadRequest, NotFound

NOW = 1_000.0


def token(name: str, owner: str = "ann", expires: float = NOW + 60, job: int | None = None) -> Delegation:
    return Delegation(owner=owner, name=name, expires=expires, token="secret-token", hosts=("h",), job=job)


@pytest.fixture
def store(tmp_path: Path) -> DelegationStore:
    return DelegationStore(tmp_path)


def test_a_delegation_is_its_owners_until_it_expires(store: DelegationStore, tmp_path: Path) -> None:
    store.keep(token("a"))
    assert store.get("ann", "a", NOW).values == {"token": "secret-token", "hosts": ["h"]}
    assert "secret" not in repr(store.get("ann", "a", NOW))
    for owner, name, now in (("bob", "a", NOW), ("ann", "b", NOW), ("ann", "a", NOW + 60)):
        with pytest.raises(NotFound):
            store.get(owner, name, now)
    assert (tmp_path / "delegations.db").stat().st_mode & 0o777 == 0o600


def test_what_has_expired_and_what_was_for_jobs_that_are_over_is_forgotten(
    store: DelegationStore, tmp_path: Path
) -> None:
    store.keep(token("old", expires=NOW))
    store.keep(token("of-7", job=7))
    store.keep(token("of-8", job=8))
    assert store.jobs() == [7, 8]
    store.forget_old(NOW, [7])
    assert [one.name for one in store.all_of("ann", 0.0)] == ["of-8"]
    store.forget("ann", "of-8")
    assert b"secret-token" not in (tmp_path / "delegations.db").read_bytes()


def test_a_user_has_only_so_many_and_may_renew_each_of_them(store: DelegationStore) -> None:
    for number in range(MAX_OF_USER):
        store.keep(token(f"d{number}"))
    with pytest.raises(BadRequest, match="100 delegations"):
        store.keep(token("more"))
    store.keep(token("d0", expires=NOW + 99))
    assert store.get("ann", "d0", NOW).expires == NOW + 99
    store.keep(token("more", owner="bob"))


def certificate(key: ec.EllipticCurvePrivateKey, until: datetime) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Ann")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(until - timedelta(days=9)).not_valid_after(until)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def private(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> str:
    locked = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(*form, locked).decode()


def test_a_proxy_ends_with_the_first_certificate_of_its_chain() -> None:
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    soon, later = (datetime(2031, 1, day, tzinfo=UTC) for day in (1, 2))
    chain = certificate(key, later) + private(key) + certificate(other, soon)
    assert proxy_end(chain) == soon.timestamp()


def test_what_is_no_certificate_with_its_key_is_refused_and_not_reported() -> None:
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    mine = certificate(key, datetime(2031, 1, 1, tzinfo=UTC))
    cut, many = private(key)[:80], "-----BEGIN PRIVATE KEY-----" * 2_000
    wrong = ["", "secret", mine, private(key), mine + private(other), mine + private(key, b"secret")]
    wrong += [mine + cut, mine + many, many + mine + private(key)]
    for text in wrong:
        with pytest.raises(BadRequest) as refused:
            proxy_end(text)
        assert "PRIVATE" not in str(refused.value)
