"""Every help page is as it was when it was last read and blessed."""

from golden_files import compare

from headnode.apps.cli.catalogue import MODULES, NOUNS
from headnode.apps.cli.commands.help import help_on

WIDTH = 80  # columns


def test_every_help_page_is_the_one_that_was_blessed() -> None:
    found = {"hn.txt": help_on([], WIDTH)}
    found |= {f"hn-{noun}.txt": help_on([noun], WIDTH) for noun in NOUNS}
    for noun, verbs in MODULES.items():
        for verb in verbs:
            words = [word for word in (noun, verb) if word]
            found[f"hn-{'-'.join(words)}.txt"] = help_on(words, WIDTH)
    compare("help", found)
