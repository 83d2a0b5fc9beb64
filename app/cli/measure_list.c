#include "app/cli/measure_list.h"

#include "models/networks.h"

enum { SIZE_LIMIT = 1000 /**< of one command: a mistyped factor must not run for hours */ };

static int add_size(struct sizes *sizes, double bytes, struct err *err)
{
    if (bytes < 1.0 || bytes >= 9e18)
        return err_usage(err, "--bytes: must be at least 1 B and less than 9 EB");
    if (sizes->count == SIZE_LIMIT)
        return err_usage(err, "--bytes: must have at most %d sizes", SIZE_LIMIT);
    BASE_NEXT(sizes->item, sizes->count) = llround(bytes);
    return 0;
}

/* "8", "64K", "1G" as nccl-tests reads them, in powers of 1024; or a size with its unit. */
static int parse_size(const char *text, double *bytes, struct err *err)
{
    static const char prefixes[] = "KMG";
    char *end;
    double number = isdigit((unsigned char)*text) ? strtod(text, &end) : 0;
    const char *prefix = number > 0 && *end ? strchr(prefixes, toupper((unsigned char)*end)) : NULL;
    if ((number > 0 && (!*end || (prefix && !end[1]))) || !strcmp(text, "0")) {
        *bytes = ldexp(number, prefix ? 10 * (int)(prefix - prefixes + 1) : 0);
        return 0;
    }
    AUTORELEASE(err) struct err found = {0};
    if (!unit_parse(UNIT_BYTES, text, bytes, &found))
        return 0;
    return err_usage(err, "--bytes: %s", err_reason(&found));
}

/* "1MB..64MB:x2"; @dots points at the two dots. */
static int add_range(struct sizes *sizes, char *text, char *dots, struct err *err)
{
    double first, last, factor;
    char *colon = strstr(dots, ":x");
    char *end = NULL;
    factor = colon ? strtod(colon + 2, &end) : 0.0;
    if (!colon || *end || !(factor > 1.0))
        return err_usage(err, "--bytes: expected a range as in 1MB..64MB:x2, got '%s'", text);
    *dots = *colon = '\0';
    if (parse_size(text, &first, err) || parse_size(dots + 2, &last, err))
        return -1;
    int failed = first > last ? err_usage(err, "--bytes: %s is more than %s", text, dots + 2) : 0;
    for (double bytes = first; bytes <= last && !failed; bytes *= factor)
        failed = add_size(sizes, bytes, err);
    return failed;
}

int sizes_read(struct sizes *sizes, const char *text, struct err *err)
{
    AUTOFREE char *copy = base_copy(text);
    int failed = 0;
    char *rest = copy;
    for (char *word; !failed && (word = strsep(&rest, ","));) {
        char *dots = strstr(word, "..");
        double bytes;
        if (dots)
            failed = add_range(sizes, word, dots, err);
        else
            failed = parse_size(word, &bytes, err) || add_size(sizes, bytes, err);
    }
    return failed ? -1 : 0;
}

int chunk_read(int64_t *bytes, const char *text, struct err *err)
{
    double value = 0;
    if (text && unit_parse(UNIT_BYTES, text, &value, err))
        return err_exit(err, 64);
    if (text && (value < 1.0 || value >= 9e18))
        return err_usage(err, "--chunk: must be at least 1 B and less than 9 EB");
    *bytes = llround(value);
    return 0;
}

RELEASE(sizes, it->item)

/* Those for images of CIFAR's size. */
static bool is_small(const char *name)
{
    static const char *const small[] = {"resnet8",  "resnet20",  "resnet32", "resnet44",
                                        "resnet56", "resnet110", "toy",      NULL};
    return base_find_word(name, small) >= 0;
}

/* A whole number above 0, or 0. */
static int64_t number(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    return *text && !*end && value > 0 && value < INT32_MAX ? value : 0;
}

/* transformer:layers=2:hidden=64 */
static int add_transformer(struct measure_list *list, char *word, struct err *err)
{
    AUTOFREE char *name = base_format("%.*s", (int)strcspn(word, ":"), word);
    if (!network_is_transformer(name))
        return err_usage(err, "--networks: '%s': transformers alone have keys", word);
    struct text keys = {0};
    text_add(&keys, "network: ");
    for (const char *at = word; *at; at++)
        text_add(&keys, "%c%s",
                 *at == ':'   ? ','
                 : *at == '=' ? ':'
                              : *at,
                 strchr(":=", *at) ? " " : "");
    BASE_NEXT(list->network, list->networks) =
        (struct measure_network){.name = base_copy(word), .optimizer = "adamw", .keys = keys.data};
    return 0;
}

static int add_network(struct measure_list *list, char *word, struct err *err)
{
    bool file = network_is_file(word);
    char *at = file ? NULL : strchr(word, '@');
    if (!file && strchr(word, ':'))
        return add_transformer(list, word, err);
    if (at)
        *at++ = '\0';
    struct measure_network network = {
        .optimizer = "sgd",
        .image = at               ? (int32_t)number(at)
                 : is_small(word) ? 32
                                  : 0,
        .classes = is_small(word) ? 10 : 1000,
    };
    if (!network.image && at)
        return err_usage(err, "--networks: '%s@%s' has no size in pixels", word, at);
    AUTORELEASE(err) struct err found = {0};
    struct model *model = network_open(NULL, word, network.image, network.classes, NULL, &found);
    if (!model)
        return err_usage(err, "%s", err_reason(&found));
    network.image = model->image;
    model_free(model);
    network.name = base_copy(word);
    network.keys = base_format("network: '%s', classes: %d", word, network.classes);
    BASE_NEXT(list->network, list->networks) = network;
    return 0;
}

static int add_batch(struct measure_list *list, char *word, struct err *err)
{
    int64_t batch = number(word);
    if (!batch)
        return err_usage(err, "--batch: expected numbers of images such as 8,32, got '%s'", word);
    BASE_NEXT(list->batch, list->batches) = batch;
    return 0;
}

static int each_word(struct measure_list *list, const char *words,
                     int (*add)(struct measure_list *, char *, struct err *), struct err *err)
{
    AUTOFREE char *copy = base_copy(words);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, ","));)
        if (add(list, word, err))
            return -1;
    return 0;
}

int measure_list_read(struct measure_list *list, const char *networks, const char *batches,
                      struct err *err)
{
    return each_word(list, networks, add_network, err) || each_word(list, batches, add_batch, err);
}

void measure_list_release(struct measure_list *list)
{
    for (int32_t i = 0; i < list->networks; i++)
        free(list->network[i].name), free(list->network[i].keys);
    free(list->network);
    free(list->batch);
    *list = (struct measure_list){0};
}
