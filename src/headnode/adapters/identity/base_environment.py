"""The variables a user's tasks start from: nothing of the agent's own environment is among them."""

import os
import pwd

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def base_environment(uid: int) -> dict[str, str]:
    """Return HOME, USER, LOGNAME, SHELL, PATH and LANG of a user; a user nobody knows lives in ``/``.

    Who started this process may have chosen another home than the system knows: tasks of his own live there.
    """
    try:
        user = pwd.getpwuid(uid)
        name, home, shell = user.pw_name, user.pw_dir, user.pw_shell
    except KeyError:
        name, home, shell = str(uid), "/", "/bin/sh"
    if uid == os.geteuid():
        home = os.environ.get("HOME", home)
    return {
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "SHELL": shell or "/bin/sh",
        "PATH": PATH,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }
