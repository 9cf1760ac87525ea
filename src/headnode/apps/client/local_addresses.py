"""Where heads and agents of this machine are, and the files of this user: directories and sockets.

Source:  XDG Base Directory Specification."""

# ruff: noqa: PTH110, PTH117, PTH118 (pathlib costs 6 ms of every command)

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEM_STATE = "/var/lib/headnode"
SOCKET_NAME = "head.sock"
NO_HOME = "/nonexistent"  # as Debian has it for users without a home directory


SYSTEM_AGENT = "/var/lib/headnode-agent"
AGENT_SOCKET = "run/hn.sock"


class AgentRoute:
    """The agent of this machine, which is a node of the head's cluster, and the task that we belong to.

    `task` is job.task.instance.attempt; empty outside of tasks.  `address` is what people call the head.
    """

    __slots__ = ("address", "socket", "task")

    def __init__(self, socket: str, task: str, address: str) -> None:
        self.socket, self.task, self.address = socket, task, address


class WebRoute:
    """A gateway on any machine, and the token that says to it who we are.

    `address` as users write it; `path` is what stands before that of the REST API; `ca_file`: certificates of
    the authorities that vouch for it, "" for those of the system.  `shared`: the nodes have the directories
    of this machine, by the same paths.
    """

    __slots__ = ("address", "ca_file", "encrypted", "host", "path", "port", "shared", "token")

    def __init__(
        self,
        *,
        address: str,
        host: str,
        port: int,
        path: str,
        token: str,
        ca_file: str,
        encrypted: bool,
        shared: bool,
    ) -> None:
        self.address, self.host, self.port, self.path = address, host, port, path
        self.token, self.ca_file, self.encrypted, self.shared = token, ca_file, encrypted, shared


def own_agent_directory(environ: "Mapping[str, str]", uid: int) -> str:
    """Return where an agent started by this user keeps its things when nobody says otherwise."""
    return SYSTEM_AGENT if uid == 0 else os.path.join(user_state_home(environ), "headnode-agent")


def own_state_directory(environ: "Mapping[str, str]", uid: int) -> str:
    """Return where a head started by this user keeps its state."""
    if uid == 0:
        return SYSTEM_STATE
    return os.path.join(user_state_home(environ), "headnode")


def user_state_home(environ: "Mapping[str, str]") -> str:
    """Return the user's own directory for state, which may not exist yet."""
    home = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(home):  # the specification says: a relative one is to be ignored
        return home
    return os.path.join(home_directory(environ), ".local", "state")


def home_directory(environ: "Mapping[str, str]") -> str:
    """Return the home directory of this user; one that does not exist for a user without any."""
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd

    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a user without an account, as in containers
        home = ""
    return home if os.path.isabs(home) else NO_HOME


def login_file(environ: "Mapping[str, str]") -> str:
    """Return where the logins of this user are kept."""
    home = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):  # the specification says: a relative one is to be ignored
        home = os.path.join(home_directory(environ), ".config")
    return os.path.join(home, "headnode", "logins.json")


def local_head_directory(environ: "Mapping[str, str]", uid: int) -> str:
    """Return the state directory of a head that lives here; empty: none does."""
    for directory in (own_state_directory(environ, uid), SYSTEM_STATE):
        if os.path.exists(os.path.join(directory, SOCKET_NAME)):
            return directory
    return ""
