#pragma once

/** @file
 * What --csv asks for.
 */

#include "app/cli/request.h"

/** Whether the CSV is all that is printed. */
bool csv_is_answer(const struct request *request);

/** Write @rows, an array of objects that is released, as CSV where @request wants it: to a file,
 * whole or not at all, or onto @out.  @columns give the first line where there is no row; NULL:
 * there always is one.
 * @return 0, or -1: the file cannot be written (exit codes 73, 74). */
int csv_write(const struct request *request, struct json *rows,
              const struct answer_columns *columns, struct text *out, struct err *err);
