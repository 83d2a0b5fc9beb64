#include "exec/cuda/conv/conv_cache.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/file.h>

#include "core/base/file.h"

static const char title[] = "foretrain-convolutions ", version_1[] = "1";

/* One line of the file. */
struct kept_plan {
    char *key; /* owned */
    struct conv_choice choice;
    bool mine, replaces; /* added by this process */
};

struct kept_plans {
    struct kept_plan *plan;
    int64_t count, capacity;
};

struct conv_cache {
    char *path, *device; /* owned; path NULL: nothing is kept */
    int64_t version;
    struct kept_plans plans; /* of all devices and versions */
    bool told;               /* that the file cannot be written */
};

/* ---- lines ---- */

char *conv_cache_key(int64_t version, const char *device, const char *name,
                     const struct conv_shape *s)
{
    return base_format("%" PRId64 " \"%s\" %s %s %d %dx%dx%d %dx%dx%d k%d s%d p%d", version, device,
                       name, dtype_names[s->type], s->batch, s->in_channels, s->in_height,
                       s->in_width, s->out_channels, s->out_height, s->out_width, s->kernel,
                       s->stride, s->padding);
}

/* Append the line of @plan: key = choice = checksum of both. */
static void print_plan(struct text *text, const struct kept_plan *plan)
{
    const struct conv_choice *choice = &plan->choice;
    int64_t start = text->length;
    text_add(text, "%s = %d", plan->key, choice->engine);
    for (int32_t i = 0; i < choice->knobs; i++)
        text_add(text, " %" PRId64 ":%" PRId64, choice->knob[i].type, choice->knob[i].value);
    text_add(text, " = %.9g %" PRId64 " %" PRIu32, choice->seconds, choice->workspace,
             choice->notes);
    uint64_t sum = base_hash(BASE_HASH_SEED, text->data + start, (size_t)(text->length - start));
    text_add(text, " = %016" PRIx64 "\n", sum);
}

/* The @nth " = " in @line, or NULL. */
static char *equals(char *line, int32_t nth)
{
    char *at = strstr(line, " = ");
    while (at && --nth > 0)
        at = strstr(at + 1, " = ");
    return at;
}

/* Whether the checksum at the end of @line is right; removes it. */
static bool is_whole(char *line)
{
    char *sum = equals(line, 3), digits[17];
    if (!sum)
        return false;
    *sum = '\0';
    snprintf(digits, sizeof digits, "%016" PRIx64, base_hash(BASE_HASH_SEED, line, strlen(line)));
    return strcmp(digits, sum + 3) == 0;
}

static bool parse_engine(const char *words, struct conv_choice *choice)
{
    int used = 0, more;
    if (sscanf(words, "%" SCNd32 "%n", &choice->engine, &used) != 1)
        return false;
    for (words += used; *words; words += more) {
        struct conv_knob knob;
        if (choice->knobs == CONV_KNOBS ||
            sscanf(words, " %" SCNd64 ":%" SCNd64 "%n", &knob.type, &knob.value, &more) != 2)
            return false;
        choice->knob[choice->knobs++] = knob;
    }
    return true;
}

/* @line, which is changed. */
static bool parse_plan(char *line, struct kept_plan *plan)
{
    char *engine, *seen;
    *plan = (struct kept_plan){0};
    if (!is_whole(line) || !(engine = equals(line, 1)) || !(seen = equals(line, 2)))
        return false;
    *engine = *seen = '\0';
    if (!parse_engine(engine + 3, &plan->choice) ||
        sscanf(seen + 3, "%lf %" SCNd64 " %" SCNu32, &plan->choice.seconds, &plan->choice.workspace,
               &plan->choice.notes) != 3)
        return false;
    plan->key = base_copy(line);
    return true;
}

/* ---- lists of plans ---- */

static struct kept_plan *find(const struct kept_plans *plans, const char *key)
{
    for (int64_t i = 0; i < plans->count; i++)
        if (strcmp(plans->plan[i].key, key) == 0)
            return &plans->plan[i];
    return NULL;
}

/* Put a copy of @plan in, in place of one with its key. */
static void put(struct kept_plans *plans, const struct kept_plan *plan)
{
    struct kept_plan *old = find(plans, plan->key);
    if (!old) {
        plans->plan =
            base_grow(plans->plan, plans->count + 1, &plans->capacity, sizeof *plans->plan);
        old = &plans->plan[plans->count++];
        *old = *plan;
        old->key = base_copy(plan->key);
        return;
    }
    char *key = old->key;
    *old = *plan;
    old->key = key;
}

static void release(struct kept_plans *plans)
{
    for (int64_t i = 0; i < plans->count; i++)
        free(plans->plan[i].key);
    free(plans->plan);
    *plans = (struct kept_plans){0};
}

/* ---- the file ---- */

/* Read @path into @plans, which is empty.  A missing file is empty.  Damaged lines are reported if
 * @reports.  @return whether it is a file of ours; else it is reported. */
static bool read_file(const char *path, bool reports, struct kept_plans *plans)
{
    AUTORELEASE(text) struct text text = {0};
    AUTORELEASE(err) struct err err = {0};
    int64_t damaged = 0, number = 1;
    if (access(path, F_OK) && errno == ENOENT)
        return true;
    if (file_read(path, &text, &err)) {
        fprintf(stderr, "foretrain-exec: plans of convolutions are not kept: %s", err.text);
        return false;
    }
    for (int64_t i = 0; i < text.length; i++)
        if (text.data[i] == '\0') /* the rest of a file after a crash; it must not hide later
                                     lines */
            text.data[i] = '?';
    char *rest = text.length ? text.data : NULL, *line = strsep(&rest, "\n");
    size_t head = strlen(title);
    if (line && (strncmp(line, title, head) || strcmp(line + head, version_1))) {
        bool newer = strncmp(line, title, head) == 0;
        fprintf(stderr, "foretrain-exec: %s %s; it is not changed, and plans are not kept\n", path,
                newer ? "is of another version of foretrain"
                      : "is not a file of convolution plans");
        return false;
    }
    while ((line = strsep(&rest, "\n"))) {
        struct kept_plan plan;
        number++;
        if (parse_plan(line, &plan)) {
            put(plans, &plan);
            free(plan.key);
        } else if (reports && (line[0] || rest) && damaged++ < 5) {
            /* a complete file ends with a newline */
            fprintf(stderr, "%s:%" PRId64 ": damaged plan of a convolution left out\n", path,
                    number);
        }
    }
    return true;
}

struct conv_cache *conv_cache_open(const char *path, int64_t version, const char *device)
{
    struct conv_cache *cache = base_alloc(1, sizeof *cache);
    cache->version = version;
    cache->device = base_copy(device);
    for (char *at = cache->device; *at; at++)
        if (*at == '"' || *at == '=' || *at < ' ' || *at > '~')
            *at = '_';
    if (path && read_file(path, true, &cache->plans))
        cache->path = base_copy(path);
    return cache;
}

void conv_cache_close(struct conv_cache *cache)
{
    if (!cache)
        return;
    release(&cache->plans);
    free(cache->path);
    free(cache->device);
    free(cache);
}

const struct conv_choice *conv_cache_find(const struct conv_cache *cache, enum conv_op op,
                                          const struct conv_shape *shape)
{
    AUTOFREE char *key = conv_cache_key(cache->version, cache->device, conv_names[op], shape);
    const struct kept_plan *plan = find(&cache->plans, key);
    return plan ? &plan->choice : NULL;
}

/* ---- writing ---- */

/* The lock of the file, or -1 and errno.  It ends with the process that holds it; a process that
 * holds it for long must not stop training. */
static int lock(const char *path)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    AUTOFREE char *name = base_format("%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    for (int32_t tries = 0; tries < 1000; tries++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        nanosleep(&pause, NULL);
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The entries in the file now, and those of this process; what others added first is used. */
static void merge(struct kept_plans *file, struct kept_plans *ours)
{
    for (int64_t i = 0; i < ours->count; i++) {
        struct kept_plan *plan = &ours->plan[i];
        const struct kept_plan *there = find(file, plan->key);
        if (plan->mine && there && !plan->replaces) {
            plan->choice = there->choice;
            plan->mine = false;
        } else if (plan->mine) {
            put(file, plan);
        }
    }
}

/* Write the file anew.  @return whether it worked; else errno. */
static bool write_file(struct conv_cache *cache)
{
    struct kept_plans file = {0};
    int held = lock(cache->path);
    if (held < 0)
        return false;
    errno = EEXIST; /* the file was replaced by another kind: reported by read_file() */
    bool good = read_file(cache->path, false, &file);
    if (good) {
        AUTORELEASE(text) struct text text = {0};
        AUTORELEASE(err) struct err reason = {0};
        merge(&file, &cache->plans);
        text_add(&text, "%s%s\n", title, version_1);
        for (int64_t i = 0; i < file.count; i++)
            print_plan(&text, &file.plan[i]);
        good = file_write(cache->path, &text, NULL, &reason) == 0;
    }
    release(&file);
    int error = errno;
    close(held);
    errno = error;
    return good;
}

/* Write our new entries to the file, and read those of others from it. */
static void keep(struct conv_cache *cache)
{
    AUTOFREE char *path = base_copy(cache->path);
    AUTORELEASE(err) struct err ignored = {0};
    file_make_directory(dirname(path), &ignored); /* a failure shows below */
    if (!write_file(cache)) {
        cache->told = true;
        fprintf(stderr, "foretrain-exec: %s: plans of convolutions are not kept: %s\n", cache->path,
                strerror(errno));
    }
}

const struct conv_choice *conv_cache_add(struct conv_cache *cache, enum conv_op op,
                                         const struct conv_shape *shape,
                                         const struct conv_choice *choice, bool replace)
{
    struct kept_plan plan = {
        .key = conv_cache_key(cache->version, cache->device, conv_names[op], shape),
        .choice = *choice,
        .mine = true,
        .replaces = replace};
    put(&cache->plans, &plan);
    free(plan.key);
    if (cache->path && !cache->told)
        keep(cache);
    return conv_cache_find(cache, op, shape);
}

bool conv_choice_same(const struct conv_choice *a, const struct conv_choice *b)
{
    return a->engine == b->engine && a->knobs == b->knobs &&
           memcmp(a->knob, b->knob, (size_t)a->knobs * sizeof *a->knob) == 0;
}
