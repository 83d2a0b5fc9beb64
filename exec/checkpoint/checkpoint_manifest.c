#include "exec/checkpoint/checkpoint_parts.h"

const char *const checkpoint_file_names[] = {"model.safetensors",
                                             "optim.safetensors",
                                             "ranks.safetensors",
                                             "state.json",
                                             "job.json",
                                             "MANIFEST",
                                             NULL};
static_assert(ARRAY_SIZE(checkpoint_file_names) == CHECKPOINT_FILE_COUNT + 2, "one name each");

#define ADVICE "; copy it again, or go on from an older checkpoint"

/* One line of MANIFEST. */
struct line {
    int32_t file; /* CHECKPOINT_FILE_COUNT: MANIFEST itself */
    struct manifest_entry entry;
};

static void print_line(struct text *out, const char *digits, int64_t bytes, const char *name)
{
    text_add(out, CHECKSUM_NAME " %s %" PRId64 " %s\n", digits, bytes, name);
}

void manifest_print(struct text *out, const struct manifest *manifest)
{
    AUTORELEASE(text) struct text lines = {0};
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
        const struct manifest_entry *entry = &manifest->entry[i];
        if (entry->present)
            print_line(&lines, entry->digits, entry->bytes, checkpoint_file_names[i]);
    }
    char digits[CHECKSUM_DIGITS + 1];
    checksum_of(lines.data, (size_t)lines.length, digits);
    print_line(&lines, digits, lines.length, checkpoint_file_names[CHECKPOINT_FILE_COUNT]);
    text_append(out, lines.data, lines.length);
}

/* Split CHECKSUM_NAME and " DIGITS BYTES NAME\n" at @text.  @return whether it is such a line. */
static bool split_line(struct line *line, const char *text)
{
    static const char begins[] = CHECKSUM_NAME " ";
    if (strncmp(text, begins, strlen(begins)) != 0)
        return false;
    const char *digits = text + strlen(begins);
    size_t count = strspn(digits, "0123456789abcdef");
    if (count != CHECKSUM_DIGITS || digits[count] != ' ')
        return false;
    const char *number = digits + count + 1;
    size_t figures = strspn(number, "0123456789");
    if (figures < 1 || figures > 18 || number[figures] != ' ')
        return false;
    const char *begin = number + figures + 1, *end = strchrnul(begin, '\n');
    AUTOFREE char *name = base_format("%.*s", (int)(end - begin), begin);
    line->file = base_find_word(name, checkpoint_file_names);
    line->entry = (struct manifest_entry){.present = true, .bytes = strtoll(number, NULL, 10)};
    memcpy(line->entry.digits, digits, count);
    return line->file >= 0 && *end == '\n';
}

/* The line about MANIFEST itself at @at must be the last and cover all lines before. */
static int check_last_line(const struct line *line, const char *name, const char *text, int64_t at,
                           int64_t length, struct err *err)
{
    char digits[CHECKSUM_DIGITS + 1];
    if (strchr(text + at, '\n') + 1 != text + length)
        return err_add(err, "%s: there is text after its last line", name);
    checksum_of(text, (size_t)at, digits);
    if (line->entry.bytes != at || strcmp(digits, line->entry.digits) != 0)
        return err_add(err, "%s: damaged: its last line does not match the lines before", name);
    return 0;
}

int manifest_read_text(struct manifest *manifest, const char *name, const char *text,
                       int64_t length, struct err *err)
{
    struct manifest found = {0};
    struct line line = {0};
    int64_t at = 0;
    for (int32_t number = 1; at < length; number++) {
        if (!split_line(&line, text + at))
            return err_add(err,
                           "%s:%d: damaged: expected a checksum's name and digits, a size in bytes "
                           "and the name of a file",
                           name, number);
        if (line.file == CHECKPOINT_FILE_COUNT)
            break;
        if (found.entry[line.file].present)
            return err_add(err, "%s:%d: damaged: %s is listed twice", name, number,
                           checkpoint_file_names[line.file]);
        found.entry[line.file] = line.entry;
        at = strchr(text + at, '\n') + 1 - text;
    }
    if (at >= length)
        return err_add(err, "%s: truncated: its last line, about %s itself, is missing", name,
                       checkpoint_file_names[CHECKPOINT_FILE_COUNT]);
    if (check_last_line(&line, name, text, at, length, err))
        return -1;
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++)
        if (!found.entry[i].present && i != CHECKPOINT_OPTIM && i != CHECKPOINT_RANKS &&
            i != CHECKPOINT_JOB)
            return err_add(err, "%s: %s is missing", name, checkpoint_file_names[i]);
    *manifest = found;
    return 0;
}

int manifest_read(struct manifest *manifest, const char *path, struct err *err)
{
    AUTOFREE char *name = base_format("%s/%s", path, checkpoint_file_names[CHECKPOINT_FILE_COUNT]);
    AUTORELEASE(text) struct text content = {0};
    int failed = file_read(name, &content, err) ||
                 manifest_read_text(manifest, name, content.data, content.length, err);
    return failed ? -1 : 0;
}

static int manifest_check(const struct manifest_entry *entry, const char *path,
                          const struct text *content, struct err *err)
{
    char digits[CHECKSUM_DIGITS + 1];
    if (content->length != entry->bytes)
        return err_add(err, "%s: damaged: it has %" PRId64 " bytes, MANIFEST says %" PRId64 ADVICE,
                       path, content->length, entry->bytes);
    checksum_of(content->data, (size_t)content->length, digits);
    if (strcmp(digits, entry->digits) != 0)
        return err_add(err, "%s: damaged: its " CHECKSUM_NAME " is %s, MANIFEST says %s" ADVICE,
                       path, digits, entry->digits);
    return 0;
}

int manifest_read_file(const struct manifest *manifest, const char *path, enum checkpoint_file kind,
                       char **file, struct text *content, struct err *err)
{
    *file = base_format("%s/%s", path, checkpoint_file_names[kind]);
    return file_read(*file, content, err) ||
                   manifest_check(&manifest->entry[kind], *file, content, err)
               ? -1
               : 0;
}
