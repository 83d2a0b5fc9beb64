#include <string.h>

#include "app/cli/command.h"

static void add_options(struct text *out, const char *path, const struct command *command)
{
    text_add(out, "    \"%s \"*) list=\"", path);
    for (int32_t i = 0; command->options[i].name; i++)
        text_add(out, "%s--%s", i ? " " : "", command->options[i].name);
    text_add(out, "\" ;;\n");
}

static void add_names(struct text *out, const struct command *const *list)
{
    for (int32_t i = 0; list[i]; i++)
        text_add(out, "%s%s", i ? " " : "", list[i]->name);
}

/* A command with subcommands comes after them: the first pattern that matches wins. */
static void add_command(struct text *out, const struct command *command)
{
    if (!command->sub) {
        add_options(out, command->name, command);
        return;
    }
    for (int32_t i = 0; command->sub[i]; i++) {
        AUTORELEASE(text) struct text path = {0};
        text_add(&path, "%s %s", command->name, command->sub[i]->name);
        add_options(out, path.data, command->sub[i]);
    }
    text_add(out, "    \"%s \"*) list=\"", command->name);
    add_names(out, command->sub);
    text_add(out, "\" ;;\n");
}

static void add_words(struct text *out, const struct option *option)
{
    text_add(out, "    --%s", option->name);
    if (option->letter)
        text_add(out, " | -%c", option->letter);
    text_add(out, ") list=\"");
    for (int32_t i = 0; option->words[i]; i++)
        text_add(out, "%s%s", i ? " " : "", option->words[i]);
    text_add(out, "\" ;;\n");
}

/* Those whose values are completed. */
static const struct option worded[] = {
    ROW_BACKEND(0),
    ROW_GRAIN(0),
    ROW_ALGORITHM(0),
};

/* The commands with their options, as cases of the words after "foretrain" and of the word before,
 * which set `list`; bash and zsh read the same. */
static void add_cases(struct text *out, const char *second, const char *after, const char *before)
{
    text_add(out, "    local list=\"");
    add_names(out, command_foretrain.sub);
    text_add(out, "\"\n    %s && case \"%s \" in\n", second, after);
    for (int32_t i = 0; command_foretrain.sub[i]; i++)
        add_command(out, command_foretrain.sub[i]);
    text_add(out, "    esac\n    case \"%s\" in\n", before);
    for (size_t i = 0; i < ARRAY_SIZE(worded); i++)
        add_words(out, &worded[i]);
    text_add(out, "    esac\n");
}

static void add_bash(struct text *out)
{
    text_add(out, "# Put this into ~/.local/share/bash-completion/completions/foretrain\n"
                  "_foretrain() {\n"
                  "    local current=\"${COMP_WORDS[COMP_CWORD]}\"\n");
    add_cases(out, "[ \"$COMP_CWORD\" -gt 1 ]", "${COMP_WORDS[*]:1:2}",
              "${COMP_WORDS[COMP_CWORD - 1]}");
    text_add(out, "    COMPREPLY=($(compgen -W \"$list\" -- \"$current\"))\n"
                  "}\n"
                  "complete -o default -F _foretrain foretrain\n");
}

static void add_zsh(struct text *out)
{
    text_add(out, "#compdef foretrain\n"
                  "# Put this into a file _foretrain in a folder of $fpath\n"
                  "_foretrain() {\n");
    add_cases(out, "[ \"$CURRENT\" -gt 2 ]", "${words[2]} ${words[3]}", "${words[CURRENT-1]}");
    text_add(out, "    compadd -- ${=list}\n"
                  "    _files\n"
                  "}\n"
                  "compdef _foretrain foretrain\n");
}

static void add_fish_options(struct text *out, const char *condition, const struct option *option)
{
    for (; option->name; option++) {
        text_add(out, "complete -c foretrain -n '%s' -l %s", condition, option->name);
        if (option->letter)
            text_add(out, " -s %c", option->letter);
        text_add(out, "%s", option->kind == OPTION_FLAG ? "" : " -r");
        for (int32_t i = 0; option->kind == OPTION_WORD && option->words[i]; i++)
            text_add(out, "%s%s", i ? " " : " -f -a '", option->words[i]);
        text_add(out, "%s\n", option->kind == OPTION_WORD ? "'" : "");
    }
}

static void add_fish(struct text *out)
{
    static const char seen[] = "__fish_seen_subcommand_from";
    text_add(out, "# Put this into ~/.config/fish/completions/foretrain.fish\n");
    const struct command *const *commands = command_foretrain.sub;
    for (int32_t i = 0; commands[i]; i++) {
        const char *name = commands[i]->name;
        text_add(out, "complete -c foretrain -n __fish_use_subcommand -f -a %s\n", name);
        AUTOFREE char *condition = base_format("%s %s", seen, name);
        for (int32_t k = 0; commands[i]->sub && commands[i]->sub[k]; k++) {
            const char *below = commands[i]->sub[k]->name;
            AUTOFREE char *both = base_format("%s; and %s %s", condition, seen, below);
            text_add(out, "complete -c foretrain -n '%s' -f -a %s\n", condition, below);
            add_fish_options(out, both, commands[i]->sub[k]->options);
        }
        if (!commands[i]->sub)
            add_fish_options(out, condition, commands[i]->options);
    }
}

static int complete(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    const char *shell = request->argument.item[0];
    if (!strcmp(shell, "bash"))
        add_bash(out);
    else if (!strcmp(shell, "zsh"))
        add_zsh(out);
    else if (!strcmp(shell, "fish"))
        add_fish(out);
    else
        return option_unknown(err, "shell", shell,
                              (const char *const[]){"bash", "zsh", "fish", NULL});
    return 0;
}

static const struct option options[] = {ROW_LAST};

const struct command command_completion = {
    .name = "completion",
    .synopsis = "bash | zsh | fish",
    .help = "a script that completes commands and options in the shell",
    .examples = "eval \"$(foretrain completion bash)\"",
    RECORD(options, struct request, NULL),
    TAKES(1, 1),
    .run = complete,
};
