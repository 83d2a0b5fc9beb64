#include "app/cli/command.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/claim.h"

enum { STREAM_LIMIT = 64 << 20 /* [bytes] */ };

/* Standard input, or what cannot be read twice; -1: an ordinary file, or none. */
static int open_once(const char *path)
{
    struct stat status;
    if (!strcmp(path, "-"))
        return dup(STDIN_FILENO);
    if (stat(path, &status) ||
        !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISCHR(status.st_mode)))
        return -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || !S_ISCHR(status.st_mode) || isatty(file))
        return file;
    close(file); /* /dev/null and the like */
    return -1;
}

/* @return whether all of @from fitted into @to; errno is 0 if it was too long. */
static bool copy_all(int from, int to)
{
    char part[1 << 16];
    int64_t total = 0;
    ssize_t got;
    while ((got = read(from, part, sizeof(part))) > 0) {
        total += got;
        errno = 0;
        if (total > STREAM_LIMIT || write(to, part, (size_t)got) != got)
            return false;
    }
    return got == 0;
}

/* Keep what "-" (standard input), a pipe or a terminal gives in memory, until the process ends.
 * @return where this process and its children find it, in messages under its own name; the caller
 * frees it.  NULL: @path is an ordinary file or none, or with a message: cannot be read (exit code
 * 66), more than 64 MiB. */
static char *stream_keep(const char *path, struct err *err)
{
    int from = open_once(path);
    if (from < 0)
        return NULL;
    AUTOFREE char *name = base_format("%.200s", strcmp(path, "-") ? path : "stdin");
    int memory = memfd_create(name, MFD_CLOEXEC);
    bool whole = memory >= 0 && copy_all(from, memory);
    if (!whole)
        err_add_code(err, errno ? 66 : 65, "cannot read '%s': %s", name,
                     errno ? strerror(errno) : "it has more than 64 MiB");
    close(from);
    return whole ? base_format("/proc/%d/fd/%d", (int)getpid(), memory) : NULL;
}

/* Located messages say "file:line:column: error: " themselves. */
static bool is_marked(const char *text)
{
    const char *mark = strstr(text, "error: ");
    return mark && mark < text + strcspn(text, "\n");
}

/* Print @text on stderr; on a terminal the words "error:" and "warning:" have a colour
 * (https://no-color.org). */
static void print_messages(const char *text)
{
    static const char *const mark[] = {"error:", "warning:"};
    static const char *const colour[] = {"\033[1;31m", "\033[1;33m"};
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool plain =
        !isatty(STDERR_FILENO) || (none && *none) || !terminal || !strcmp(terminal, "dumb");
    while (!plain && *text) {
        const char *found = NULL;
        size_t kind = 0;
        for (size_t i = 0; i < ARRAY_SIZE(mark); i++) {
            const char *at = strstr(text, mark[i]);
            if (at && (!found || at < found)) {
                found = at;
                kind = i;
            }
        }
        if (!found)
            break;
        fprintf(stderr, "%.*s%s%s\033[0m", (int)(found - text), text, colour[kind], mark[kind]);
        text = found + strlen(mark[kind]);
    }
    fputs(text, stderr);
}

int command_finish(struct text *out, struct err *err)
{
    int32_t code = err->exit_code; /* set without a message if a child has reported the fault */
    if (err->warning)
        print_messages(err->warning);
    if (err->text && !is_marked(err->text))
        print_messages("error: ");
    if (err->text)
        print_messages(err->text);
    if (out->length && isatty(STDOUT_FILENO))
        text_clean(out->data);
    if (out->length && (fwrite(out->data, 1, (size_t)out->length, stdout) != (size_t)out->length ||
                        fflush(stdout))) {
        print_messages("error: cannot write to standard output\n");
        code = 74;
    }
    text_release(out);
    err_release(err);
    return code;
}

static void print_examples(struct text *out, const char *examples)
{
    for (const char *line = examples; *line;) {
        const char *end = strchrnul(line, '\n');
        text_add(out, "  $ %.*s\n", (int)(end - line), line);
        line = *end ? end + 1 : end;
    }
}

static void print_help(struct text *out, const char *program, const struct command *command)
{
    text_add(out, "%s %s: %s.\n\n", program, command->name, command->help);
    print_examples(out, command->examples);
    text_add(out, "%sUsage: %s %s %s\n\n", *command->examples ? "\n" : "", program, command->name,
             command->synopsis);
    option_help(out, command->options);
    if (command->keys) {
        text_add(out, "\nKeys of a JOB:\n");
        field_help(out, command->keys);
    }
}

/* The word of @synopsis for argument @number: they have capitals. */
static const char *find_argument(const char *synopsis, int32_t number)
{
    for (const char *word = synopsis; *word; word += strcspn(word, " "), word += strspn(word, " "))
        if (isupper((unsigned char)*word) && number-- == 0)
            return word;
    return "argument";
}

static int check_arguments(const char *program, const struct command *command,
                           const struct request *request, struct err *err)
{
    int32_t count = request->argument.count;
    if (count >= command->minimum && count <= command->maximum)
        return 0;
    AUTOFREE char *usage =
        base_format("usage: %s %s %s", program, command->name, command->synopsis);
    if (count > command->maximum)
        err_usage(err, "unexpected argument '%s'; %s", request->argument.item[command->maximum],
                  usage);
    else {
        const char *word = find_argument(command->synopsis, count);
        err_usage(err, "missing %.*s; %s", (int)strcspn(word, " ."), word, usage);
    }
    return -1;
}

static int check_output(const struct request *request, struct err *err)
{
    return request->json && csv_is_answer(request)
               ? err_usage(err, "--json and --csv - print both; name a file for one of them")
               : 0;
}

/* Outputs first: what is read may not be one of them. */
static int claim_files(const struct command *command, const struct request *request,
                       struct err *err)
{
    int failed =
        option_claim(command->options, request, err) || (!command->ranks && claim_check(err));
    for (int32_t i = 0; i < request->argument.count && !failed; i++)
        failed = claim_input(request->argument.item[i], err);
    return failed ? -1 : 0;
}

/* Put those that can be read only once where children find them, too. */
static int keep_streams(struct texts *argument, struct err *err)
{
    for (int32_t i = 0; i < argument->count && !err->count; i++) {
        char *kept = stream_keep(argument->item[i], err);
        if (!kept)
            continue;
        free((char *)(size_t)argument->item[i]);
        argument->item[i] = kept;
    }
    return err->count ? -1 : 0;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

static void run_one(const char *program, const struct command *command, int argc, char **argv,
                    struct text *out, struct err *err)
{
    if (wants_help(argc, argv)) {
        print_help(out, program, command);
        return;
    }
    if (command->missing) {
        err_add_code(err, 69, "this foretrain was built without %s", command->missing);
        return;
    }
    AUTOFREE struct request *request = base_alloc(1, command->size); /* and what follows it */
    if (command->defaults)
        memcpy(request, command->defaults, command->size);
    if (!option_parse(command->options, argc, argv, request, &request->argument, &request->given,
                      err) &&
        !check_arguments(program, command, request, err) && !check_output(request, err) &&
        !claim_files(command, request, err) &&
        !(command->jobs && keep_streams(&request->argument, err)))
        command->run(request, out, err);
    option_release(command->options, request);
    texts_release(&request->argument);
    texts_release(&request->given);
}

static void print_list(struct text *out, const char *program, const struct command *all)
{
    text_add(out, "Usage: %s COMMAND ...\n%s", program, all->sub[0]->heading ? "" : "\n");
    for (const struct command *const *command = all->sub; *command; command++) {
        if ((*command)->heading)
            text_add(out, "\n%s:\n", (*command)->heading);
        text_add(out, "  %-13s %s\n", (*command)->name, (*command)->help);
    }
    text_add(out, "\n");
    if (all->examples) {
        print_examples(out, all->examples);
        text_add(out, "\n");
    }
    text_add(out, "'%s COMMAND --help' says more.\n", program);
}

static int refuse(const char *program, const char *given, const struct command *const *list,
                  struct err *err)
{
    if (given[0] == '-' && given[1])
        return err_usage(err, "'%s' precedes the command; options follow it, as in '%s %s ... %s'",
                         given, program, list[0]->name, given);
    if (strchr(given, '/') || strchr(given, '.'))
        return err_usage(err, "'%s' is no command; for a file of that name: %s %s %s", given,
                         program, list[0]->name, given);
    AUTORELEASE(texts) struct texts names = {0};
    for (; *list; list++)
        texts_add(&names, "%s", (*list)->name);
    return option_unknown(err, "command", given, names.item);
}

static void run_found(const char *program, const struct command *command, int argc, char **argv,
                      struct text *out, struct err *err)
{
    if (!command->sub) {
        run_one(program, command, argc, argv, out, err);
        return;
    }
    AUTOFREE char *longer = base_format("%s %s", program, command->name);
    command_answer(longer, command, argc, argv, out, err);
}

void command_answer(const char *program, const struct command *all, int argc, char **argv,
                    struct text *out, struct err *err)
{
    if (argc < 1) {
        AUTORELEASE(text) struct text known = {0};
        print_list(&known, program, all);
        err_usage(err, "which command?\n\n%s", known.data);
        return;
    }
    bool help = !strcmp(argv[0], "help") || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h");
    const char *name = help && argc > 1 ? argv[1] : argv[0];
    for (const struct command *const *command = all->sub; *command; command++) {
        if (strcmp((*command)->name, name) != 0)
            continue;
        if (help)
            run_found(program, *command, 1, (char *[]){"--help", NULL}, out, err);
        else
            run_found(program, *command, argc - 1, argv + 1, out, err);
        return;
    }
    if (help && argc < 2)
        print_list(out, program, all);
    else
        refuse(program, name, all->sub, err);
}

int command_dispatch(const struct command *all, int argc, char **argv)
{
    struct text out = {0};
    struct err err = {0};
    command_answer(all->name, all, argc, argv, &out, &err);
    return command_finish(&out, &err);
}
