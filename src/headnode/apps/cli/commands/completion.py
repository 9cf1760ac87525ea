"""``hn completion``: what a shell needs to complete our words."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

CANDIDATES = "candidates"  # what the scripts ask for, with the command line up to the cursor


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Print a script for the shell that is named, or what such a script asks for."""
    if asked.words[:1] == [CANDIDATES] and len(asked.words) == 2:
        from headnode.apps.cli.completing import candidates

        for word, said in candidates(asked.words[1], client):
            out.text(f"{word}\t{said}" if said else word, {"word": word, "said": said})
        return 0
    shell = asked.words[0] if len(asked.words) == 1 else ""
    if shell not in SCRIPTS:
        raise usage("no shell we know is named", f"write: hn completion {'|'.join(SCRIPTS)}")
    out.text(SCRIPTS[shell], {"shell": shell, "script": SCRIPTS[shell]})
    return 0


_BASH = r"""_hn() {
  local line=${COMP_LINE:0:COMP_POINT} word before= one
  word=${line##*[[:space:]]}
  case $word in *[=:]*) before=${word%"${word##*[=:]}"} ;; esac  # bash divides words there
  COMPREPLY=()
  while IFS=$'\t' read -r one _; do
    COMPREPLY+=("${one#"$before"}")
  done < <("${COMP_WORDS[0]}" completion candidates "$line" 2>/dev/null)
  case ${COMPREPLY[0]} in *=) compopt -o nospace ;; esac
}
complete -o default -F _hn hn headnode
"""
_ZSH = r"""#compdef hn headnode
_hn() {
  local -a found
  local one said
  while IFS=$'\t' read -r one said; do
    found+=("${one//:/\\:}${said:+:$said}")
  done < <("$words[1]" completion candidates "${(j: :)words[1,CURRENT]}" 2>/dev/null)
  if (( $#found )); then _describe hn found; else _files; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _hn "$@"; else compdef _hn hn headnode; fi
"""
_FISH = r"""function __hn_candidates
  hn completion candidates (commandline -cp | string collect) 2>/dev/null
end
complete -c hn -c headnode -a '(__hn_candidates)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

COMMANDS = (
    Command(
        "completion",
        "bash|zsh|fish",
        "Print a shell script that completes commands, options, ids, nodes and values",
        run,
        example="source <(hn completion bash)",
        notes=(
            "Bash: source <(hn completion bash) in ~/.bashrc. Zsh: source <(hn completion zsh) in ~/.zshrc, "
            "behind compinit. Fish: hn completion fish > ~/.config/fish/completions/hn.fish.",
        ),
        positionals=1,
    ),
)
