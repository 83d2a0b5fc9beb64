#!/usr/bin/python3
"""Print a script that completes commands, options and their words in a shell, from --help alone.

Usage: completion.py PROGRAM bash|zsh|fish
"""
import re
import subprocess
import sys

WORDED = ("backend", "grain", "algorithm")  # of bash and zsh: options whose words follow
BASH = """\
# Put this into ~/.local/share/bash-completion/completions/foretrain
_foretrain() {
    local current="${COMP_WORDS[COMP_CWORD]}"
%s    COMPREPLY=($(compgen -W "$list" -- "$current"))
}
complete -o default -F _foretrain foretrain
"""
ZSH = """\
#compdef foretrain
# Put this into a file _foretrain in a folder of $fpath
_foretrain() {
%s    compadd -- ${=list}
    _files
}
compdef _foretrain foretrain
"""


def read(program, *words):
    """The subcommands of a command, and its options: (letter, name, what follows)."""
    text = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    options = re.findall(r"(?m)^  (?:-(\w), |    )--([a-z-]+)(?: (\S+))?(?: |$)", text)
    return ([] if options and words else re.findall(r"(?m)^  ([a-z][-a-z]*) ", text)), options


def tree(program):
    """All commands with their options: {"show model": options}, and {"show": its subcommands}."""
    commands, groups = {}, {"": read(program)[0]}
    for name in groups[""]:
        below, options = read(program, name)
        if below:
            groups[name] = below
            commands.update({f"{name} {word}": read(program, name, word)[1] for word in below})
        else:
            commands[name] = options
    return commands, groups


def choices(value):
    """The words of "analytic|sim"; none of a value that is not a choice."""
    return value.split("|") if re.fullmatch(r"[a-z0-9][\w.-]*(\|[a-z0-9][\w.-]*)+", value) else []


def cases(commands, groups, second, after, before):
    """The words that set `list` in bash and zsh: a command with subcommands comes after them."""
    lines = [f'    local list="{" ".join(groups[""])}"', f'    {second} && case "{after} " in']
    for name in groups[""]:
        for path in [name] if name not in groups else [f"{name} {word}" for word in groups[name]]:
            lines.append(f'    "{path} "*) list="{" ".join("--" + option for _, option, _ in commands[path])}" ;;')
        if name in groups:
            lines.append(f'    "{name} "*) list="{" ".join(groups[name])}" ;;')
    lines += ["    esac", f'    case "{before}" in']
    known = {option: (letter, choices(value)) for options in commands.values() for letter, option, value in options
             if choices(value)}
    for name in WORDED:
        letter, words = known[name]
        lines.append(f'    --{name}{f" | -{letter}" if letter else ""}) list="{" ".join(words)}" ;;')
    return "\n".join([*lines, "    esac", ""])


def fish(commands, groups):
    """Lines of fish, one for each command and option."""
    yield "# Put this into ~/.config/fish/completions/foretrain.fish"
    seen = "__fish_seen_subcommand_from"
    for name in groups[""]:
        yield f"complete -c foretrain -n __fish_use_subcommand -f -a {name}"
        for word in groups.get(name, [None]):
            condition = f"{seen} {name}" + (f"; and {seen} {word}" if word else "")
            if word:
                yield f"complete -c foretrain -n '{seen} {name}' -f -a {word}"
            for letter, option, value in commands[f"{name} {word}" if word else name]:
                words = choices(value)
                yield (f"complete -c foretrain -n '{condition}' -l {option}" + (f" -s {letter}" if letter else "") +
                       (" -r" if value else "") + (f" -f -a '{' '.join(words)}'" if words else ""))


def main():
    """Of one shell."""
    program, shell = sys.argv[1:]
    commands, groups = tree(program)
    if shell == "bash":
        text = BASH % cases(commands, groups, '[ "$COMP_CWORD" -gt 1 ]', "${COMP_WORDS[*]:1:2}",
                            "${COMP_WORDS[COMP_CWORD - 1]}")
    elif shell == "zsh":
        text = ZSH % cases(commands, groups, '[ "$CURRENT" -gt 2 ]', "${words[2]} ${words[3]}", "${words[CURRENT-1]}")
    else:
        text = "\n".join(fish(commands, groups)) + "\n"
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
