#include <string.h>

#include "app/cli/command.h"

static void add_options(struct text *out, const char *path, const struct command *command)
{
    text_add(out, "    \"%s \"*) words=\"", path);
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
        struct text path = {0};
        text_add(&path, "%s %s", command->name, command->sub[i]->name);
        add_options(out, path.data, command->sub[i]);
        text_release(&path);
    }
    text_add(out, "    \"%s \"*) words=\"", command->name);
    add_names(out, command->sub);
    text_add(out, "\" ;;\n");
}

static void add_words(struct text *out, const struct option *option)
{
    text_add(out, "    --%s", option->name);
    if (option->letter)
        text_add(out, " | -%c", option->letter);
    text_add(out, ") words=\"");
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

static int complete(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    if (strcmp(request->argument.item[0], "bash") != 0)
        return option_unknown(err, "shell", request->argument.item[0],
                              (const char *const[]){"bash", NULL});
    text_add(out, "# Put this into ~/.local/share/bash-completion/completions/foretrain\n"
                  "_foretrain() {\n"
                  "    local current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
                  "    local before=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n"
                  "    local words=\"");
    add_names(out, commands);
    text_add(out, "\"\n    [ \"$COMP_CWORD\" -gt 1 ] && case \"${COMP_WORDS[*]:1:2} \" in\n");
    for (int32_t i = 0; commands[i]; i++)
        add_command(out, commands[i]);
    text_add(out, "    esac\n    case \"$before\" in\n");
    for (size_t i = 0; i < sizeof(worded) / sizeof(*worded); i++)
        add_words(out, &worded[i]);
    text_add(out, "    esac\n"
                  "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                  "}\n"
                  "complete -o default -F _foretrain foretrain\n");
    return 0;
}

static const struct option options[] = {ROW_LAST};

const struct command command_completion = {
    .name = "completion",
    .synopsis = "bash",
    .help = "a script that completes commands and options in the shell",
    .examples = "eval \"$(foretrain completion bash)\"",
    RECORD(options, struct request, NULL),
    .minimum = 1,
    .maximum = 1,
    .run = complete,
};
