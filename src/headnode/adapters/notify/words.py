"""A notice in words for mail, and as an object for hooks."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Any

import msgspec

from headnode.core.lifecycle.notices import Notice
from headnode.core.model.quantities import Instant


def mail(notice: Notice, sender: str, to: str) -> EmailMessage:
    """Return the notice as mail; told twice, it has the same Message-ID both times."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject(notice)
    message["Date"] = datetime.fromtimestamp(notice.at, UTC)
    domain = Address(addr_spec=sender).domain
    message["Message-ID"] = f"<{notice.number}.{int(notice.at)}.{notice.job}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(_lines(notice)) + "\n")
    return message


def subject(notice: Notice) -> str:
    """Return the notice in one line."""
    named = f" ({_on_one_line(notice.name)})" if notice.name else ""
    did = "has started" if notice.kind == "started" else f"is {notice.state}"
    return f"[{notice.cluster}] job {notice.job}{named} {did}"


def _on_one_line(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _lines(notice: Notice) -> list[str]:
    facts = [
        ("Job", f"{notice.job} {notice.name}".rstrip()),
        ("State", notice.state.capitalize()),
        ("Owner", notice.owner),
        ("Project", notice.project),
        ("Submitted", _time(notice.submitted)),
        ("Started", _time(notice.started)),
        ("Ended", _time(notice.at) if notice.kind == "ended" else ""),
        ("Processors", str(notice.processors or "")),
        ("Nodes", ", ".join(notice.nodes)),
        ("Exit code", "" if notice.exit_code is None else str(notice.exit_code)),
        ("Message", notice.message),
    ]
    shown = [f"{word + ':':<12} {value}" for word, value in facts if value]
    return [*shown, "", f"Details: hn job view {notice.job}"]


def _time(at: Instant | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec="seconds")


def document(notice: Notice) -> dict[str, Any]:
    """Return the notice as hooks get it; `text` is for those that show nothing else, such as chats."""
    return {"text": subject(notice), **msgspec.to_builtins(notice)}
