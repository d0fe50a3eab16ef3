"""`sotaque completion`: prints the completion script for bash or zsh."""

import shlex
import sys
from collections.abc import Iterable, Sequence

from extras.cli.choices import choices_of
from machine import console
from machine.errors import SotaqueError

SUMMARY = "print the completion script of bash or zsh"
USAGE = "bash|zsh"
_BASH = """\
# Completion of sotaque for bash, printed by: sotaque completion bash
_sotaque() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} found=
    if [[ $COMP_CWORD -eq 1 ]]; then
        found={verbs}
    else
        local verb=${{COMP_WORDS[1]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
        {table}
    fi
    COMPREPLY=($(compgen -W "$found" -- "$current"))
}}
complete -o default -F _sotaque sotaque
"""
_ZSH = """\
#compdef sotaque
# Completion of sotaque for zsh, printed by: sotaque completion zsh
_sotaque() {{
    local current=$words[CURRENT] found=
    if (( CURRENT == 2 )); then
        local -a verbs=({described})
        _describe command verbs
        return
    fi
    local verb=$words[2] previous=$words[CURRENT-1]
    {table}
    if [[ -n $found ]]; then compadd -- ${{=found}}; else _files; fi
}}
if [[ $funcstack[1] == _sotaque ]]; then _sotaque "$@"; else compdef _sotaque sotaque; fi
"""
_SHELLS = {"bash": _BASH, "zsh": _ZSH}


def main(words: Sequence[str]) -> int:
    """Prints the script. Raises SotaqueError."""
    if {"-h", "--help"} & set(words):
        return 0
    if len(words) != 1 or words[0] not in _SHELLS:
        raise SotaqueError(f"completion needs the name of a shell: {' or '.join(_SHELLS)}.")
    sys.stdout.write(script(words[0]))
    return 0


def choices() -> dict[str, tuple[str, ...]]:
    """The shells."""
    return {"completion": tuple(_SHELLS)}


def script(shell: str) -> str:
    """The script for bash or zsh, with every verb and flag that is installed."""
    verbs = console.verbs()
    described = " ".join(shlex.quote(f"{name}:{verb.summary}") for name, verb in verbs.items())
    return _SHELLS[shell].format(
        verbs=shlex.quote(" ".join(verbs)), described=described, table=_completion_cases(verbs)
    )


def _completion_cases(verbs: Iterable[str]) -> str:
    """The shell code that completes the values of flags with fixed words, and the flags of each
    verb; files elsewhere."""
    verb_cases: list[str] = []
    flags_by_words: dict[str, list[str]] = {}
    for verb in verbs:
        choices = choices_of(verb)
        flag_names = " ".join(flag for flag in choices if flag.startswith("--"))
        verb_cases.append(f"    {verb}) found={shlex.quote(flag_names)} ;;")
        for flag, words in choices.items():
            if words:
                flags_by_words.setdefault(" ".join(words), []).append(shlex.quote(f"{verb} {flag}"))
    return "\n".join(
        [
            'case "$verb $previous" in',
            *(
                f"{'|'.join(patterns)}) found={shlex.quote(words)} ;;"
                for words, patterns in flags_by_words.items()
            ),
            "*) if [[ $current == -* ]]; then case $verb in",
            *verb_cases,
            "esac; fi ;;",
            "esac",
        ]
    )
