"""``hn sss``: send a message to an SSSRMAP peer and show what it answers; or be such a peer."""

import re
from pathlib import Path

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.job_selection import own_name
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headnode.core.formats.sss.sssrmap.messages import RmapField, RmapRequest
    from headnode.core.formats.text.xml_text import XmlElement

_PORT = 7112
_SERVER = ("key-file", "address", "port", "actors", "names", "require-id", "only-sha256")
_GET = re.compile(r"(?P<name>[^:]+)(?::(?P<op>[A-Za-z]+))?\Z")
_SET = re.compile(r"(?P<name>[\w./@*-]+)(?P<op>\+=|-=|=)(?P<value>.*)\Z", re.DOTALL)
_WHERE = re.compile(
    r"(?:(?P<conj>and|or|andnot|ornot)\s+)?(?P<open>\(*)\s*(?P<name>[^=<>!~()\s]+)\s*"
    r"(?P<op>>=|<=|!=|=|>|<|~)\s*(?P<value>.*?)\s*(?P<close>\)*)\Z",
    re.DOTALL | re.IGNORECASE,
)
_OPS = {
    "=": "",
    "!=": "NE",
    ">": "GT",
    "<": "LT",
    ">=": "GE",
    "<=": "LE",
    "~": "Match",
    "+=": "Inc",
    "-=": "Dec",
}
_CONJS = {"and": "And", "or": "Or", "andnot": "AndNot", "ornot": "OrNot"}


def speak(args: Arguments, client: Client, out: Output) -> int:
    """Send one message, and show it with its answer; the exit status is 1 if it fails."""
    import asyncio

    from headnode.adapters.wire.sssrmap import exchange
    from headnode.core.formats.sss.sssrmap.messages import canonical, parsed_answer, read_response

    if args.flag("serve"):
        return _serve(args, client)
    message, body = _message(args)
    host, port = _place(args.text("to") or "localhost")
    answers = [parsed_answer(each) for each in asyncio.run(exchange(host, port, message))]
    responses = [read_response(each) for each in answers]
    if not responses:
        raise usage("the peer has answered with an empty message", "look at its log")
    text = "\n".join([_shown("request", body), *(_shown("answer", each) for each in answers)])
    status = responses[-1].status
    data = {
        "request": canonical(body),
        "status": status.word,
        "code": status.code,
        "message": status.message,
        "count": sum(each.count or 0 for each in responses),
        "data": [canonical(one) for each in responses for one in each.data],
    }
    out.text(text, data)
    return 0 if status.word != "Failure" else 1


def _shown(what: str, element: "XmlElement") -> str:
    from headnode.apps.cli.table import printable
    from headnode.core.formats.sss.sssrmap.messages import compacted
    from headnode.core.formats.text.xml_text import written_inside

    lines = written_inside(compacted(element), "  ").splitlines()
    return "\n".join([f"{what}:", f"  {printable(lines[0])}", *map(printable, lines[1:])])


def _message(args: Arguments) -> "tuple[bytes, XmlElement]":
    """Return what is sent, and its Body."""
    from headnode.adapters.wire.sssrmap import read_site_key
    from headnode.core.formats.sss.sssrmap.messages import (
        canonical,
        child_of,
        envelope,
        parsed,
        write_request,
    )
    from headnode.core.formats.sss.sssrmap.signatures import SHA1, SHA256, signature_of

    key_file = args.text("key-file")
    if (file := args.text("file")) is not None:
        text = _file(file)
        document = parsed(text)
        body = document if document.name == "Body" else child_of(document, "Body")
        if body is None:
            raise usage(f"{file!r} has no Body", "write Envelope/Body/Request")
        if key_file is None:
            return text, body
    else:
        body = write_request(_request(args))
    if key_file is None:
        raise usage("the message needs a signature", "name the site key: --key-file FILE")
    written = canonical(body)
    method = SHA256 if args.flag("sha256") else SHA1
    return envelope(written, signature_of(written, read_site_key(Path(key_file)), method)), body


def _file(path: str) -> bytes:
    import sys

    from headnode.core.model.bounds import RMAP_MESSAGE

    if path == "-":
        return sys.stdin.buffer.read(RMAP_MESSAGE.most + 1)
    try:
        with Path(path).open("rb") as file:
            return file.read(RMAP_MESSAGE.most + 1)
    except OSError as error:
        raise usage(f"{path!r} cannot be read: {error.strerror}", "name a file with the message") from None


def _request(args: Arguments) -> "RmapRequest":
    """Return the request that the options describe."""
    from headnode.core.formats.sss.sssrmap.messages import RmapRequest, elements, parsed
    from headnode.core.formats.text.xml_text import XmlElement

    if len(args.words) != 2:
        raise usage("an action and an object are needed", "for example: hn sss Query Job --key-file FILE")
    data: list[XmlElement] = []
    if (file := args.text("data")) is not None:
        document = parsed(_file(file))
        data = [document if document.name == "Data" else XmlElement("Data", {}, [document])]
        data = [XmlElement("Data", one.attributes, [*elements(one)]) for one in data]
    objects, aliases = _objects(args.words[1])
    called = [alias or name for name, alias in zip(objects, aliases, strict=True)]
    gets = (_field(_GET, text, "get", "JobId or Charge:Sum") for text in args.options.get("get", ()))
    wheres = (_field(_WHERE, text, "where", "JobState=Idle") for text in args.options.get("where", ()))
    return RmapRequest(
        action=args.words[0],
        actor=args.text("actor") or own_name(),
        objects=objects,
        aliases=aliases if any(aliases) else (),
        gets=tuple(_of_object(one, called) for one in gets),
        sets=tuple(_field(_SET, text, "set", "Priority=1500") for text in args.options.get("set", ())),
        wheres=tuple(_of_object(one, called) for one in wheres),
        options=tuple(_field(_SET, text, "option", "Limit=10") for text in args.options.get("option", ())),
        data=tuple(data),
        id=args.text("id") or _new_id(),
        chunk_size=args.number("chunk"),
    )


def _field(form: "re.Pattern[str]", text: str, option: str, example: str) -> "RmapField":
    from headnode.core.formats.sss.sssrmap.messages import RmapField

    match = form.match(text)
    if match is None:
        raise usage(f"--{option} {text[:80]!r} is not understood", f"write --{option} {example!r}")
    parts: Mapping[str, str | None] = match.groupdict()
    op = parts.get("op") or ""
    return RmapField(
        name=parts["name"] or "",
        value=parts.get("value") or "",
        op=_OPS.get(op, op),
        conj=_CONJS.get((parts.get("conj") or "").lower(), ""),
        group=len(parts.get("open") or "") - len(parts.get("close") or ""),
    )


def _objects(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the objects of a request, and their aliases: ``Job,User:U``."""
    parts = [one.partition(":") for one in text.split(",")]
    if not all(name for name, _, _ in parts):
        raise usage(f"{text[:80]!r} names no object", "write Job, or several: Job,User")
    return tuple(name for name, _, _ in parts), tuple(alias for _, _, alias in parts)


def _of_object(field: "RmapField", called: "Sequence[str]") -> "RmapField":
    """Return a field of a join with the objects that its name and its value begin with."""
    import msgspec

    if len(called) == 1:
        return field
    owner, dot, name = field.name.partition(".")
    if dot and owner in called:
        field = msgspec.structs.replace(field, object=owner, name=name)
    subject, dot, value = field.value.partition(".")
    if dot and subject in called:
        field = msgspec.structs.replace(field, subject=subject, value=value)
    return field


def _new_id() -> str:
    """Return an id that listeners of Headnode take once."""
    import secrets
    import time

    return f"{int(time.time())}-{secrets.token_hex(8)}"


def _place(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (text.count(":") > 1 and not host.endswith("]")):
        return text, _PORT
    if not (port.isascii() and port.isdigit() and 0 < int(port[:9]) < 65536):
        raise usage(f"{text!r} is not an address", "write --to HOST:PORT")
    return host.strip("[]"), int(port)


def _serve(args: Arguments, client: Client) -> int:
    """Turn this process into a listener."""
    import os

    from headnode.adapters.own_python import module_command

    if args.words or not client.state_directory or client.login is not None:
        raise usage("a listener runs on the head's machine", "there: hn sss --serve --key-file FILE")
    argv = ["--state", client.state_directory]
    for name in _SERVER:
        if (value := args.text(name)) is not None:
            flag = name in ("require-id", "only-sha256")
            argv += [f"--{name}"] if flag else [f"--{name}", value]
    command = module_command("headnode.apps.web.sssrmap", *argv)
    os.execv(command[0], command)


COMMANDS = (
    CliCommand(
        "sss",
        "ACTION OBJECT[,OBJECT]",
        "Send an SSSRMAP message and show its answer, or answer such messages",
        speak,
        options=(
            CliOption("to", "HOST[:PORT]", "Send to this peer (default: localhost:7112)"),
            CliOption("key-file", "FILE", "File whose first line is the site key"),
            CliOption("actor", "NAME", "Actor of the request (default: you)"),
            CliOption("get", "NAME[:OP]", "Ask for a property, or for Sum, Max, ... of it", repeats=True),
            CliOption("where", "NAME=VALUE", "Condition; also != > < >= <= ~", repeats=True),
            CliOption("set", "NAME=VALUE", "Change a property; also += and -=", repeats=True),
            CliOption("option", "NAME=VALUE", "Option of the action", repeats=True),
            CliOption("data", "FILE", "XML of the objects of the request; -: standard input"),
            CliOption("file", "FILE", "The whole message or its Body; -: standard input"),
            CliOption("id", "ID", "Id of the request (default: a new one)"),
            CliOption("chunk", "N", "Ask for the answer in chunks of at most so many objects"),
            CliOption("sha256", "", "Sign with HMAC-SHA256, which older peers do not know"),
            CliOption("serve", "", "Run as a peer: answer messages, in the foreground"),
            CliOption("address", "ADDRESS", "With --serve: listen at this address (default: 127.0.0.1)"),
            CliOption("port", "N", "With --serve: listen at this port (default: 7112)"),
            CliOption("actors", "FILE", "With --serve: lines with an actor and a user; no others may ask"),
            CliOption("names", "3.1|3.0|0.2", "With --serve: names of properties if a request names none"),
            CliOption("require-id", "", "With --serve: refuse changes without an id of their own"),
            CliOption("only-sha256", "", "With --serve: refuse signatures with SHA-1"),
        ),
        example="hn sss Query Job --get JobId --get JobState --where 'JobClass=active' --key-file auth_key",
        notes=(
            "Conditions are joined by and; begin one with or, andnot or ornot, and set brackets: "
            "--where '(User=ann' --where 'or User=bob)'.",
            "A query can join objects: hn sss Query Job,User --get JobId --where 'Job.UserId=User.UserId'.",
            "A file that is a whole message is sent as it is, unless --key-file signs it anew.",
        ),
    ),
)
