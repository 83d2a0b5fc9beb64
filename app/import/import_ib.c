#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/import/import.h"
#include "app/import/import_tree.h"

/* Lanes by name [bits/s of payload].  Source: InfiniBand Trade Association, InfiniBand roadmap; SDR
 * to QDR carry 8 bits in 10, FDR and later 64 in 66 or with error correction of their own. */
static const struct {
    const char *name;
    double rate;
} lanes[] = {{"SDR", 2e9},  {"DDR", 4e9},  {"QDR", 8e9},   {"FDR10", 10e9}, {"FDR", 13.64e9},
             {"EDR", 25e9}, {"HDR", 50e9}, {"NDR", 100e9}, {"XDR", 200e9}};

/* The first speed such as 4xEDR in @text [bytes/s], or 0. */
static double find_speed(const char *text)
{
    for (const char *at = text; (at = strchr(at, 'x')); at++) {
        const char *digits = at;
        while (digits > text && isdigit((unsigned char)digits[-1]))
            digits--;
        size_t length = 0;
        while (isalnum((unsigned char)at[1 + length]))
            length++;
        for (size_t i = 0; digits < at && i < ARRAY_SIZE(lanes); i++)
            if (strlen(lanes[i].name) == length && !strncmp(lanes[i].name, at + 1, length))
                return strtod(digits, NULL) * lanes[i].rate / 8;
    }
    return 0;
}

/* What has been read so far. */
struct fabric_report {
    struct tree tree;
    struct {
        int64_t count;
        double slowest, fastest; /* [bytes/s] */
    } card;
    int32_t now;      /* the switch whose ports are being read, or -1 */
    int32_t switches; /* blocks of switches */
    int32_t unknown;  /* cards without a speed that is known */
};

/* The text between the first pair of quotes at or after *@at, which moves past it; NULL if there is
 * none.  Changes the line. */
static char *next_quoted(char **at)
{
    char *begin = strchr(*at, '"'), *end = begin ? strchr(begin + 1, '"') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return begin + 1;
}

/* The host of a port: the description up to its card ("node1 HCA-1"), else the card's identifier.
 */
static char *host_name(const char *description, const char *identifier)
{
    char *name = base_copy(description && *description ? description : identifier);
    char *card = strstr(name, " HCA-");
    if (!card)
        card = strstr(name, " mlx");
    if (card)
        *card = '\0';
    return name;
}

static void add_card(struct fabric_report *report, double speed)
{
    report->card.count++;
    if (!(speed > 0)) {
        report->unknown++;
        return;
    }
    report->card.slowest = report->card.slowest > 0 ? fmin(report->card.slowest, speed) : speed;
    report->card.fastest = fmax(report->card.fastest, speed);
}

/* '[1] "H-0002c903"[1](2c903)  # "node1 HCA-1" lid 4 4xEDR'. */
static int read_port(struct fabric_report *report, const char *file, int32_t number, char *line,
                     struct err *err)
{
    char *at = line, *peer = next_quoted(&at);
    if (!peer || (*peer != 'H' && *peer != 'S' && *peer != 'R'))
        return err_add(err,
                       "%s:%d: expected a port such as '[1] \"H-0002c9\"[1] # \"node1 HCA-1\" "
                       "lid 4 4xEDR'",
                       file, number);
    double speed = find_speed(at);
    char *description = next_quoted(&at);
    if (*peer == 'H') {
        AUTOFREE char *name = host_name(description, peer);
        tree_add(&report->tree, name, TREE_HOST, report->now);
        add_card(report, speed);
    } else if (*peer == 'S' && report->now >= 0) {
        struct tree_vertex *vertex = &report->tree.vertex[report->now];
        vertex->uplinks++;
        if (speed > 0 && (!(vertex->speed > 0) || speed < vertex->speed))
            vertex->speed = speed;
    }
    return 0;
}

static int read_lines(struct fabric_report *report, const char *file, char *rest, struct err *err)
{
    int32_t number = 0;
    bool reading = false;
    for (char *line; (line = import_next_line(&rest));) {
        number++;
        char *at = line + strspn(line, " \t"), *identifier;
        if (!strncmp(at, "Switch", 6) && (identifier = next_quoted(&at))) {
            report->now = tree_add(&report->tree, identifier, TREE_SWITCH, -1);
            report->switches++;
            reading = true;
        } else if (!strncmp(at, "Ca", 2) || !strncmp(at, "Rt", 2)) {
            reading = false; /* the same cables from the other end */
        } else if (*at == '[' && reading && read_port(report, file, number, at, err)) {
            return -1;
        }
    }
    if (report->switches && report->tree.hosts)
        return 0;
    return err_add(err,
                   "%s:%d: no 'Switch' with a host on a port up to here: give what "
                   "ibnetdiscover prints",
                   file, number);
}

int import_ibnetdiscover(struct import *import, const struct import_request *request,
                         struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    struct fabric_report report = {.now = -1};
    int failed = import_load(import->file, &text, err);
    if (!failed)
        failed = read_lines(&report, import->file, text.data, err);
    if (!failed)
        failed = tree_understand(&report.tree, import, err);
    if (!failed) {
        import->description = base_copy("from ibnetdiscover");
        import_note(import, "%" PRId64 " cards of %g to %g Gb/s, %.3g a node", report.card.count,
                    report.card.slowest * 8e-9, report.card.fastest * 8e-9,
                    (double)report.card.count / report.tree.hosts);
        if (report.unknown)
            import_note(import, "%d cards without a speed that is known", report.unknown);
        if (report.card.slowest > 0)
            import_set_nic(import, report.card.slowest, "the slowest card");
        import_assume(import, "cables of a leaf switch to other switches all go up");
    }
    tree_release(&report.tree);
    return failed;
}
