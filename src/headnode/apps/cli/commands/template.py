"""``hn template``: list, view, export, import and remove what jobs of a kind get and may ask for."""

import os

from headnode.adapters.files.opening import open_named
from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, the_name, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

COLUMNS = ("Name", "Rules", "For", "Description")
_RULE_COLUMNS = ("Property", "Default", "Read Only", "Least", "Most", "Allowed", "Required")
_FORM = CliOption("to", "FORM", "toml (default), or hpcpack: the XML that HPC Pack imports")


def listing(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """List every template."""
    templates = client.ask("templates")["templates"]
    rows = [
        {
            "Name": template["name"],
            "Rules": ", ".join(template["rules"]) or "none",
            "For": _people(template),
            "Description": template["description"],
        }
        for template in templates
    ]
    out.show_table(RecordTable("Name", rows, templates, columns=COLUMNS, prose=True))
    return 0


def _people(template: "Mapping[str, Any]") -> str:
    named = [*template["users"], *(f"@{group}" for group in template["groups"])]
    return ", ".join(named) or "everybody"


def view(args: Arguments, client: Client, out: Output) -> int:
    """Show the rules of a template."""
    template = client.ask("template", template=the_name(args, "template", "see: hn template list"))[
        "template"
    ]
    rows = [
        {
            "Property": key,
            "Default": _shown(rule.get("default")),
            "Read Only": "yes" if rule.get("read_only") else "",
            "Least": _shown(rule.get("least")),
            "Most": _shown(rule.get("most")),
            "Allowed": _shown(rule.get("allowed")),
            "Required": _shown(rule.get("required")),
        }
        for key, rule in template["rules"].items()
    ]
    if not rows:
        out.note(f"Template {template['name']} has no rules: it changes and refuses nothing.")
    if rows or not out.for_people:
        out.show_table(RecordTable("Property", rows, template, columns=_RULE_COLUMNS))
    return 0


def _shown(value: "Any") -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)


def export(args: Arguments, client: Client, out: Output) -> int:
    """Print a template as a file."""
    found = client.ask(
        "template", template=the_name(args, "template", "see: hn template list"), form=args.text("to")
    )
    for item in found["report"]:
        out.note(f"{item['where']}: {item['what']}")
    out.text(found["text"], found)
    return 0


def import_(args: Arguments, client: Client, out: Output) -> int:
    """Make or replace templates from files."""
    if not args.words:
        raise usage("no file was given", "give the files of one or more templates")

    def deed(path: str) -> None:
        made = client.ask("set_template", text=_text(path))
        for item in made["report"]:
            out.note(f"{path}:{item['line']}: {item['where']}: {item['what']}")
        name = made["template"]["name"]
        out.outcome(f"Template {name} has been set.", made, name)

    return for_each(args.words, deed, out)


def _text(path: str) -> str:
    try:
        with os.fdopen(open_named(path), "rb") as file:
            return file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise usage(f"template file {path!r} cannot be read: {reason}", "name a file of UTF-8 text") from None


def remove(args: Arguments, client: Client, out: Output) -> int:
    """Take templates away."""
    if not args.words:
        raise usage("no template was given", "give the names of one or more templates")

    def deed(name: str) -> None:
        out.outcome(f"Template {name} has been removed.", client.ask("remove_template", template=name), name)

    return for_each(args.words, deed, out)


COMMANDS = (
    CliCommand(
        "list",
        "",
        "List the job templates",
        listing,
        options=(FORMAT,),
        example="hn template list",
        instead="one template: hn template view NAME",
    ),
    CliCommand(
        "view",
        "NAME",
        "Show the defaults and limits of a template",
        view,
        options=(FORMAT,),
        example="hn template view Default",
    ),
    CliCommand(
        "export",
        "NAME",
        "Print a template as the file that import reads",
        export,
        options=(_FORM,),
        example="hn template export Default > default.toml",
    ),
    CliCommand(
        "import",
        "FILE...",
        "Make or replace templates from files: TOML, JSON, or the XML of HPC Pack; administrators only",
        import_,
        example="hn template import solver.toml",
    ),
    CliCommand(
        "remove",
        "NAME...",
        "Remove templates; submitted jobs stay as they are; administrators only",
        remove,
        example="hn template remove solver",
    ),
)
