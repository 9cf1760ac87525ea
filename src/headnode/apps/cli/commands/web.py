"""``hn web``: start the gateway of the console and the REST API, and log in."""

import os

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

_OPENID = ("oidc-issuer", "oidc-client", "oidc-secret-file", "oidc-claim", "oidc-users")
_SETTINGS = (
    *("address", "port", "certificate", "key", "url", "trusted-proxy", "login", "colour"),
    *_OPENID,
)
_FILES = ("certificate", "key", "oidc-secret-file", "oidc-users")


def open_console(args: Arguments, client: Client, out: Output) -> int:
    """Start the gateway unless one runs, and print an address that logs in once."""
    from headnode.apps.cli import daemons, web_gateway

    if client.login is not None or not client.state_directory:
        raise usage("a gateway runs on the head's machine", "log in there: hn web")
    state = client.state_directory
    if args.flag("stop"):
        return _stop(state, out)
    settings = {name: args.text(name) for name in _SETTINGS}
    for name in _FILES:  # the gateway works in another directory
        if (value := settings[name]) is not None:
            settings[name] = os.path.abspath(value)  # noqa: PTH100  (pathlib would be imported for it)
    if args.flag("foreground"):
        web_gateway.become_gateway(state, settings)
    if (running := web_gateway.ask_gateway(state, "login")) is not None:
        for lost in [name for name, value in settings.items() if value is not None]:
            out.note(
                f"--{lost} has no effect, because the gateway runs already; stop it first: hn web --stop"
            )
        answer = running
    else:
        answer = web_gateway.start_gateway(state, settings)
    if daemons.ping(client) is None:
        out.note(f"no head is running in {state!r}: the console waits for it; start it with: hn up")
    out.outcome(address_text(answer["address"]), answer, answer["address"])
    return 0


def address_text(address: str) -> str:
    """Return what people read about an address that logs in once."""
    return f"The console is at {address}\nThis address logs you in, once, within 10 minutes."


def _stop(state: str, out: Output) -> int:
    from headnode.apps.cli import web_gateway

    number = web_gateway.stop_gateway(state, of_others=True)
    if number is None:
        out.note("no gateway runs that you may stop")
        return 0
    out.outcome("The gateway has ended. Jobs are not affected.", {"pid": number}, number)
    return 0


COMMANDS = (
    CliCommand(
        "web",
        "",
        "Open the console: start the gateway, and print an address that logs in",
        open_console,
        options=(
            CliOption("address", "ADDRESS", "Listen at this address (default: 127.0.0.1)"),
            CliOption("port", "N", "Listen at this port (default: 8170, or a free one)"),
            CliOption("certificate", "FILE", "Use TLS with this certificate chain (PEM)"),
            CliOption("key", "FILE", "Private key of the certificate (PEM)"),
            CliOption("url", "URL", "Address of the gateway for browsers, if a proxy is in front of it"),
            CliOption(
                "trusted-proxy", "ADDRESS,...", "Proxies (or networks) whose X-Forwarded-For names the client"
            ),
            CliOption(
                "login",
                "one-user|local|pam|oidc",
                "Who may log in: only you (one-user, default); all users with hn web (local), also by "
                "password (pam) or OpenID Connect (oidc)",
            ),
            CliOption("oidc-issuer", "URL", "Provider of OpenID Connect"),
            CliOption("oidc-client", "ID", "Client id of this gateway at the provider"),
            CliOption("oidc-secret-file", "FILE", "File with the secret of the client"),
            CliOption("oidc-claim", "CLAIM", "Claim that names the user (default: preferred_username)"),
            CliOption("oidc-users", "FILE", "Lines with a value of the claim and a user of this machine"),
            CliOption(
                "colour",
                "blue|green|amber|red|purple|grey",
                "Colour of the cluster's name in the console, to tell clusters apart (default: blue)",
            ),
            CliOption("stop", "", "Stop the gateway; jobs are not affected"),
            CliOption("foreground", "", "Stay in the foreground, for service managers"),
        ),
        instead="to stop the gateway: hn web --stop",
        example="hn web",
        notes=(
            "If a gateway runs, only a new address is printed.",
            "With --login local and pam the head must know the account of the gateway: hn up --gateway-user "
            "NAME",
            "The same gateway serves the REST API, below /api/v1.",
        ),
    ),
)
