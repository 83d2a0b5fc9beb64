/** @file
 * How programs end without memory.  The library has a way of its own.
 */

#include "core/base/base.h"

void base_out_of_memory(size_t bytes)
{
    fprintf(stderr, "foretrain: out of memory: cannot allocate %zu bytes\n", bytes);
    exit(71);
}
