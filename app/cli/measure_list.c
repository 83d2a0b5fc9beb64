#include "app/cli/measure_list.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "models/networks.h"

/* Those for images of CIFAR's size. */
static bool is_small(const char *name)
{
    static const char *const small[] = {"resnet8",  "resnet20",  "resnet32", "resnet44",
                                        "resnet56", "resnet110", "toy",      NULL};
    for (const char *const *word = small; *word; word++)
        if (!strcmp(*word, name))
            return true;
    return false;
}

/* A whole number above 0, or 0. */
static int64_t number(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    return *text && !*end && value > 0 && value < INT32_MAX ? value : 0;
}

static int add_network(struct measure_list *list, char *word, struct err *err)
{
    bool file = network_is_file(word);
    char *at = file ? NULL : strchr(word, '@');
    if (at)
        *at++ = '\0';
    struct measure_network network = {
        .image = at               ? (int32_t)number(at)
                 : is_small(word) ? 32
                                  : 0,
        .classes = is_small(word) ? 10 : 1000,
    };
    if (!network.image && at)
        return err_add_code(err, 64, "--networks: '%s@%s' has no size in pixels", word, at);
    AUTORELEASE(err) struct err found = {0};
    struct model *model = network_open(NULL, word, network.image, network.classes, NULL, &found);
    if (!model)
        return err_add_code(err, 64, "%s", err_reason(&found));
    network.image = model->image;
    model_free(model);
    network.name = base_copy(word);
    list->network = base_room(list->network, list->networks, sizeof(*list->network));
    list->network[list->networks++] = network;
    return 0;
}

static int add_batch(struct measure_list *list, char *word, struct err *err)
{
    int64_t batch = number(word);
    if (!batch)
        return err_add_code(err, 64, "--batch: expected numbers of images such as 8,32, got '%s'",
                            word);
    list->batch = base_room(list->batch, list->batches, sizeof(*list->batch));
    list->batch[list->batches++] = batch;
    return 0;
}

static int each_word(struct measure_list *list, const char *words,
                     int (*add)(struct measure_list *, char *, struct err *), struct err *err)
{
    if (!words)
        return 0;
    char *copy = base_copy(words), *rest = copy;
    int failed = 0;
    for (char *word; !failed && (word = strsep(&rest, ","));)
        failed = add(list, word, err);
    free(copy);
    return failed;
}

int measure_list_read(struct measure_list *list, const char *networks, const char *batches,
                      struct err *err)
{
    return each_word(list, networks, add_network, err) || each_word(list, batches, add_batch, err)
               ? -1
               : 0;
}

void measure_list_release(struct measure_list *list)
{
    for (int32_t i = 0; i < list->networks; i++)
        free(list->network[i].name);
    free(list->network);
    free(list->batch);
    *list = (struct measure_list){0};
}
