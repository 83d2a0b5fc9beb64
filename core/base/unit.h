#pragma once

/** @file
 * Quantities as people write them: "25 GB/s", "2 us", "125 TFLOP/s", "4 MiB", "2 %".
 *
 * Inside the program everything is SI: bytes, seconds, bytes per second, FLOP per second, and
 * fractions of one.  A unit is required wherever a quantity has a dimension: bare "25" is refused.
 * "Gb/s" is bits, "GB/s" is bytes, "MiB" is 1048576 bytes.
 */

#include "core/base/base.h"

/** What a number measures. */
enum unit {
    UNIT_NONE,               /**< a plain number, no suffix allowed */
    UNIT_AMOUNT,             /**< "15T", "300B" (1e9), "20M", "5k" or a plain number */
    UNIT_FRACTION,           /**< "2 %" or 0.02 */
    UNIT_BYTES,              /**< B kB MB GB TB KiB MiB GiB TiB */
    UNIT_BYTES_PER_SECOND,   /**< B/s kB/s MB/s GB/s TB/s KiB/s MiB/s GiB/s kb/s Mb/s Gb/s Tb/s */
    UNIT_SECONDS,            /**< ns us (or with the letter mu) ms s min h */
    UNIT_FLOPS,              /**< GFLOP/s TFLOP/s PFLOP/s */
    UNIT_EPOCHS,             /**< "5 epochs", "1 epoch" or a plain number */
    UNIT_IMAGES_PER_SECOND,  /**< "350 images/s" */
    UNIT_SAMPLES_PER_SECOND, /**< "350 samples/s": of what is no picture */
    UNIT_WATTS,              /**< W kW MW */
    UNIT_CARBON,             /**< kilograms per joule: g/kWh kg/kWh */
    UNIT_COUNT
};

/** Parse @text as a quantity of @unit into SI.
 * @return 0, or -1 with a message that gives an example: not a number, not finite, unknown or
 * missing unit.  Bits and bytes are different units, and both are accepted. */
int unit_parse(enum unit unit, const char *text, double *value, struct err *err);

enum { UNIT_ROOM = 32 /**< characters of a quantity, at most */ };

/** Write @value for people, with a readable prefix and 4 significant digits: "12.5 GB/s".
 * Binary prefixes only where they make the number whole; times from 10 minutes on in min and h.
 * @return @text, or "-" for NaN. */
const char *unit_write(char text[UNIT_ROOM], enum unit unit, double value);

/** unit_write() as an argument of printf(): a text that lasts as long as the block around it. */
#define unit_text(unit, value) unit_write((char[UNIT_ROOM]){""}, unit, value)

/** Write @value, which is @centre or an end of its interval @low to @high, for people: in the unit
 * of the centre, and with no digits that the interval makes meaningless, which is those below a
 * twentieth of its width.  Without an interval (NaN) as unit_write().
 * @return @text, or "-" for NaN. */
const char *unit_write_likely(char text[UNIT_ROOM], enum unit unit, double value, double centre,
                              double low, double high);

/** unit_write_likely() as an argument of printf(). */
#define unit_likely(unit, value, centre, low, high)                                                \
    unit_write_likely((char[UNIT_ROOM]){""}, unit, value, centre, low, high)

/** Whether @text begins with the name of a unit as a word: "ms, and", "% of it". */
bool unit_follows(const char *text);

/** An example of how to write the unit ("25 GB/s"), for messages and help. */
const char *unit_example(enum unit unit);

/** True when a number without a suffix is accepted. */
bool unit_allows_bare(enum unit unit);

/** Append the regular expression that texts of @unit match, for the JSON Schema. */
void unit_pattern(struct text *out, enum unit unit);
