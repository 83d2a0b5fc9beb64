#pragma once

/** @file
 * `validate --against`: kept predictions, scored by what was measured since.
 */

#include "core/base/answer.h"

extern const struct answer_columns against_columns; /**< what it answers */

/** Score the CSV file @path, as manual page foretrain(1) says, into @out.
 * @return 0, or -1: the messages of file_read(), located faults, no row to score (exit code 65). */
int against_score(const char *path, bool json, struct text *out, struct err *err);
