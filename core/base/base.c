#include "core/base/base.h"

#include "core/base/random.h"

void *base_alloc(int64_t count, size_t size)
{
    assert(count >= 0);
    void *memory = calloc(count > 0 ? (size_t)count : 1, size > 0 ? size : 1);
    if (!memory)
        base_out_of_memory((size_t)count * size);
    return memory;
}

void *base_grow(void *array, int64_t need, int64_t *capacity, size_t size)
{
    if (need <= *capacity && array)
        return array;
    int64_t room = *capacity > 0 ? *capacity : 8;
    while (room < need)
        room *= 2;
    void *moved = reallocarray(array, (size_t)room, size);
    if (!moved)
        base_out_of_memory((size_t)room * size);
    *capacity = room;
    return moved;
}

void *base_room(void *array, int64_t count, size_t size)
{
    int64_t full = count ? count : 1;
    return count & (count - 1) ? array : base_grow(array, count + 1, &full, size);
}

char *base_copy(const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    return memcpy(base_alloc((int64_t)size, 1), text, size);
}

char *base_format_list(const char *format, va_list list)
{
    char *text;
    if (vasprintf(&text, format, list) < 0)
        base_out_of_memory(strlen(format));
    return text;
}

char *base_format(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *text = base_format_list(format, list);
    va_end(list);
    return text;
}

void base_free_at(void *pointer)
{
    free(*(void **)pointer);
}

const char *base_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

void text_append(struct text *text, const char *data, int64_t count)
{
    text->data = base_grow(text->data, text->length + count + 1, &text->capacity, 1);
    if (count > 0)
        memcpy(text->data + text->length, data, (size_t)count);
    text->length += count;
    text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    AUTOFREE char *piece = base_format_list(format, list);
    va_end(list);
    text_append(text, piece, (int64_t)strlen(piece));
}

void text_add_word(struct text *text, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "@%+=:,./_-";
    bool assigns = !text->length && strchr(word, '='); /* A=b before a command sets a variable */
    if (*word && !assigns && !word[strspn(word, plain)]) {
        text_add(text, "%s", word);
        return;
    }
    text_add(text, "'");
    for (const char *at = word; *at; at++)
        text_add(text, *at == '\'' ? "'\\''" : "%c", *at);
    text_add(text, "'");
}

void text_clean(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if ((*c < ' ' && *c != '\t' && *c != '\n') || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) /* U+0080 to U+009F */
            *c = c[1] = '?';
}

RELEASE(text, it->data)

void texts_take(struct texts *texts, char *text)
{
    if (!text)
        return;
    texts->item = base_room(texts->item, texts->count + 1, sizeof(*texts->item)); /* and NULL */
    texts->item[texts->count++] = text;
    texts->item[texts->count] = NULL;
}

void texts_add(struct texts *texts, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    texts_take(texts, base_format_list(format, list));
    va_end(list);
}

void texts_add_all(struct texts *texts, const struct texts *other)
{
    for (int32_t i = 0; i < other->count; i++)
        texts_add(texts, "%s", other->item[i]);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void texts_sort(struct texts *texts)
{
    if (texts->count > 0)
        qsort(texts->item, (size_t)texts->count, sizeof(*texts->item), compare_texts);
}

void texts_release(struct texts *texts)
{
    for (int32_t i = 0; i < texts->count; i++)
        free((char *)(size_t)texts->item[i]);
    free(texts->item);
    *texts = (struct texts){0};
}

uint64_t base_hash(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ byte[i]) * UINT64_C(1099511628211);
    return seed;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double base_seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void base_sort(double *value, int64_t count)
{
    qsort(value, (size_t)count, sizeof(*value), compare);
}

double base_median(double *value, int64_t count)
{
    base_sort(value, count);
    return count ? (value[(count - 1) / 2] + value[count / 2]) / 2 : 0;
}

double base_quantile(double *value, int64_t count, double share)
{
    base_sort(value, count);
    double at = share * (double)(count - 1);
    int64_t below = (int64_t)at;
    if (below + 1 >= count)
        return value[count - 1];
    return value[below] + (at - (double)below) * (value[below + 1] - value[below]);
}

double base_uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    return random_counted(random_key(seed, a, b), c);
}

double base_normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2 * log(base_uniform(seed, a, b, c)));
    return radius * cos(two_pi * base_uniform(~seed, a, b, c));
}

int32_t base_find_word(const char *word, const char *const *words)
{
    for (int32_t i = 0; word && words[i]; i++)
        if (!strcmp(words[i], word))
            return i;
    return -1;
}

static int32_t least(int32_t a, int32_t b, int32_t c)
{
    int32_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

int32_t base_edit_distance(const char *a, const char *b)
{
    int32_t columns = (int32_t)strlen(b) + 1;
    AUTOFREE int32_t *rows =
        base_alloc(3 * columns, sizeof(*rows)); /* of the table, used in turn */
    int32_t *above = rows + columns, *row = rows;
    for (int32_t j = 0; j < columns; j++)
        row[j] = j;
    for (int32_t i = 1; a[i - 1]; i++) {
        int32_t *next = rows + i % 3 * columns;
        next[0] = i;
        for (int32_t j = 1; j < columns; j++) {
            next[j] = least(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above[j - 2] + 1 < next[j])
                next[j] = above[j - 2] + 1;
        }
        above = row;
        row = next;
    }
    return row[columns - 1];
}

const char *base_nearest(const char *word, const char *const *words)
{
    const int64_t longest = 64; /* no key is longer, and the cost is quadratic */
    if ((int64_t)strnlen(word, (size_t)longest + 1) > longest)
        return NULL;
    int32_t limit = (int32_t)strlen(word) / 3;
    if (limit < 1)
        limit = 1;
    const char *nearest = NULL;
    for (; words && *words; words++) {
        int32_t distance = base_edit_distance(word, *words);
        if (distance <= limit && distance < (int32_t)strlen(*words)) {
            nearest = *words;
            limit = distance - 1;
        }
    }
    return nearest;
}
