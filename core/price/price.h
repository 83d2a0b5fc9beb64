#pragma once

/** @file
 * What a run costs: prices, power and carbon of one file, and the bill of a number of nodes and
 * devices for a time.
 *
 * A file in prices/ is an example that users replace by their own.  Nothing is priced unless a file
 * is named, and every bill names the file and its date.  A number may be a range, `{low: 60 %,
 * high: 85 %}`, between whose ends nothing is said to be likelier.
 *
 * A purchase counts as an hourly price: what a node cost over the hours in which it trains, which
 * are the part `utilisation` of its `lifetime`.  Nodes that are taken away (spot) have an mtbf,
 * which stands for the platform's own.
 *
 * Energy is rated power times the share of it that training draws times PUE times the time.
 * Devices of the job count while they wait, too; those of its nodes that it leaves alone do not.
 * Bounds are products of bounds: the low end of the time with the low ends of all ranges, and the
 * high end with the high ends.  So they are at least as wide as the interval of the time.
 */

#include "core/base/answer.h"
#include "core/config/field.h"

/** One end of a file's ranges.  Quantities that are not given have no path. */
struct prices {
    int64_t version;
    char *name, *description;
    char *date;                   /**< as of which: "2026-03-31" */
    struct field_list devices;    /**< char *, names of those that the numbers are of; none: any */
    char *currency;               /**< "USD"; NULL: nothing has a price */
    struct quantity node_hour;    /**< price of a node [currency/h] */
    struct quantity device_hour;  /**< of a device; of both the sum is paid [currency/h] */
    struct quantity mtbf;         /**< until a node at this price is taken away [s] */
    struct quantity purchase;     /**< price of a node [currency] */
    struct quantity lifetime;     /**< over which it is written off [s] */
    struct quantity utilisation;  /**< the part of that time in which it trains */
    struct quantity device_power; /**< rated, of one device [W] */
    struct quantity node_power;   /**< rated, of a node beside its devices [W] */
    struct quantity share;        /**< of the rated power that training draws */
    struct quantity pue;          /**< power of the site over power of its computers */
    struct quantity carbon;       /**< CO2 equivalent of electricity [kg/J] */
};

/** A file.  Start from {0}; release with price_release(). */
struct price_file {
    struct prices low, high;
    char *path;
    char *origin; /**< bill.origin; both owned */
};

/** A price file, and for which platform. */
struct tariff {
    char *platform; /**< owned; NULL: all that have none of their own */
    struct price_file file;
    bool used; /**< a platform asked for it */
};

/** Those of `--prices`.  Start from {0}; release with tariffs_release(). */
struct tariffs {
    struct tariff *item; /**< (count) owned */
    int32_t count;
};

/** What is paid for; means over the run, where its phases differ. */
struct usage {
    double nodes, devices;
    struct range seconds;
};

/** What it comes to.  Borrows from the file. */
struct bill {
    struct range cost;    /**< [currency] */
    struct range energy;  /**< [kWh] */
    struct range carbon;  /**< [kg] */
    const char *currency; /**< NULL: nothing has a price */
    const char *origin; /**< "example-h100 of 2026-03-31 (prices/example-h100.yaml)"; NULL: nothing
                           is priced */
};

/** Read prices by name (searched in prices/ beside platforms/) or by path into zeroed @file.
 * @return 0, or -1: not found (exit code 66, with those that are near), or located messages about
 * its content: a date that is none, a price without currency, power without share or PUE, keys
 * without effect, unknown numbers that are no ranges. */
int price_read(struct price_file *file, const char *name, struct err *err);

/** Warn by name where @file (NULL: none) is not for @device, the name of a device file. */
void price_check_device(const struct price_file *file, const char *device, struct err *err);

/** The assignment that a job at these prices begins with: the mtbf of nodes that are taken away.
 * @return an owned text, or NULL: none. */
char *price_assignment(const struct price_file *file);

void price_release(struct price_file *file);

/** Read the @count texts of @given, each "FILE" or "PLATFORM=FILE", into zeroed @tariffs.
 * @return as price_read(). */
int tariffs_read(struct tariffs *tariffs, const char *const *given, int32_t count, struct err *err);

/** The prices of @platform, a name or a path, which matches PLATFORM without folder and ending, or
 * of @job (NULL: none), a name of the command's; NULL: there are none. */
const struct price_file *tariffs_find(const struct tariffs *tariffs, const char *platform,
                                      const char *job);

/** @return 0, or -1: prices of a platform that nobody asked for (exit code 64). */
int tariffs_check(const struct tariffs *tariffs, struct err *err);

void tariffs_release(struct tariffs *tariffs);

/** The bill of @usage.  What the file does not price is NAN; @file NULL: all is. */
struct bill price_bill(const struct price_file *file, const struct usage *usage);

/** Cost, energy and carbon with their bounds, currency and prices, all null without a file. */
extern const struct answer_columns bill_columns;

/** Append them as rows of a table, "  %-24s%16s"; nothing without a file. */
void bill_print(struct text *out, const struct bill *bill);

/** The rows of a price file. */
extern const struct field_table price_table;
