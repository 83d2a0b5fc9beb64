#pragma once

/** @file
 * What every file needs: the headers of C, messages, memory that never fails, growing text, a hash
 * and seeded random numbers.
 *
 * Invariants: an allocation never returns NULL (the process dies with one line on stderr and exit
 * code 71 instead).  The hash and the random numbers are fixed functions of their arguments on
 * every machine, so schedules and noise are reproducible.
 */

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/base/err.h"

/** End the process with one line on stderr and exit code 71. */
_Noreturn void base_out_of_memory(size_t bytes);

/** Zeroed memory for @count items of @size bytes.  The caller owns it; release it with free(). */
void *base_alloc(int64_t count, size_t size);

/** Make room for @need items in @array (or NULL), doubling @capacity.  New room is not initialised.
 * @return the array, moved or not; the old pointer is no longer valid. */
void *base_grow(void *array, int64_t need, int64_t *capacity, size_t size);

/** Make room for one more item behind the @count of @array (or NULL), which only this lets grow: it
 * is full where @count is 0 or a power of two.  New room is not initialised.
 * @return the array, moved or not; the old pointer is no longer valid. */
void *base_room(void *array, int64_t count, size_t size);

/** A further item of @array (or NULL), which only this lets grow; @count, a variable, counts it. */
#define BASE_NEXT(array, count)                                                                    \
    (*((array) = base_room(array, count, sizeof(*(array))), &(array)[(count)++]))

/** A copy of @text, or NULL for NULL.  The caller owns it; release it with free(). */
char *base_copy(const char *text);

/** The formatted text.  The caller owns it; release it with free(). */
char *base_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** base_format() of a list of arguments. */
char *base_format_list(const char *format, va_list list) __attribute__((format(printf, 1, 0)));

/** Before the declaration of a local pointer, which is initialised: free() where its block ends, on
 * every way out.  What is returned or kept has it not. */
#define AUTOFREE __attribute__((cleanup(base_free_at)))

/** A variable that NOUN_release(&variable) releases: `AUTORELEASE(text) struct text out = {0};`. */
#define AUTORELEASE(noun) __attribute__((cleanup(noun##_release)))

/** The number of items of an array, which is no pointer. */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

/** free() of the pointer at @pointer, for AUTOFREE. */
void base_free_at(void *pointer);

/** Define NOUN_release() of a struct NOUN, which is called `it` here: it frees the pointers that
 * follow and leaves the struct zeroed, to be used again. */
#define RELEASE(noun, ...)                                                                         \
    void noun##_release(struct noun *it)                                                           \
    {                                                                                              \
        void *const owned[] = {__VA_ARGS__};                                                       \
        for (size_t i = 0; i < ARRAY_SIZE(owned); i++)                                             \
            free(owned[i]);                                                                        \
        *it = (struct noun){0};                                                                    \
    }

/** RELEASE() that one file uses. */
#define OWN_RELEASE(noun, ...) static RELEASE(noun, __VA_ARGS__)

/** "" for one, "s" for any other @count: "%d rank%s". */
const char *base_plural(int64_t count);

/** Text that grows.  Start from {0}; data is NULL while nothing was added, else ends with NUL. */
struct text {
    char *data;       /**< the characters, owned */
    int64_t length;   /**< [characters], without the NUL */
    int64_t capacity; /**< [characters] */
};

/** Append formatted text. */
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Append @count characters of @data as they are. */
void text_append(struct text *text, const char *data, int64_t count);

/** Append @word so that a shell reads it as one word, with quotes if needed.  As the first word of
 * a line it names the program, whatever characters it has. */
void text_add_word(struct text *text, const char *word);

/** Make each character of @text that could steer a terminal a '?': control characters but tabs and
 * newlines.  For what quotes files that others wrote. */
void text_clean(char *text);

/** Release the characters; the struct may be used again. */
void text_release(struct text *text);

/** Texts in a list.  Start from {0}; release with texts_release(). */
struct texts {
    const char **item; /**< (count) owned, and NULL; or no array at all */
    int32_t count;
};

/** Append the formatted text. */
void texts_add(struct texts *texts, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Append @text, which becomes the list's, unless it is NULL. */
void texts_take(struct texts *texts, char *text);

/** Append copies of all texts of @other. */
void texts_add_all(struct texts *texts, const struct texts *other);

/** Sort them by their bytes. */
void texts_sort(struct texts *texts);

/** Release texts and array; the struct may be used again. */
void texts_release(struct texts *texts);

/** Hash @size bytes on top of @seed.
 * Source: FNV-1a, 64 bit, offset basis 14695981039346656037 and prime 1099511628211 (RFC draft
 * Fowler/Noll/Vo), start with BASE_HASH_SEED. */
uint64_t base_hash(uint64_t seed, const void *data, size_t size);

/** The seed of an empty hash. */
#define BASE_HASH_SEED UINT64_C(14695981039346656037)

/** What @clock shows [s]. */
double base_seconds(clockid_t clock);

/** Define @name, by which qsort() and bsearch() order items of @type: the least @member first. */
#define ORDER_BY(name, type, member)                                                               \
    static int name(const void *a, const void *b)                                                  \
    {                                                                                              \
        const type *x = a, *y = b;                                                                 \
        return (x->member > y->member) - (x->member < y->member);                                  \
    }

/** Sort @value (@count), the least first. */
void base_sort(double *value, int64_t count);

/** Sort @value (@count).  @return the one in the middle, or the mean of two; 0 of none. */
double base_median(double *value, int64_t count);

/** Sort @value.  @return the @share quantile (0.25: lower quartile), linear between ranks. */
double base_quantile(double *value, int64_t count, double share);

/** A uniform random number in (0, 1) that depends only on its arguments.
 * Source: SplitMix64's finaliser (Steele, Lea, Flood 2014) over the four counters. */
double base_uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

/** A standard normal random number that depends only on its arguments (Box-Muller). */
double base_normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

/** The place of @word among the NULL-terminated @words; -1: it is NULL or none of them. */
int32_t base_find_word(const char *word, const char *const *words);

/** The number of single-character edits between two words, for "did you mean".  A swap of two
 * neighbours is one edit. */
int32_t base_edit_distance(const char *a, const char *b);

/** The word of the NULL-terminated list @words nearest to @word, or NULL when none is near. */
const char *base_nearest(const char *word, const char *const *words);
