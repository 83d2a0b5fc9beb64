#include "core/backend/simulation.h"

#include <stdarg.h>
#include <stdlib.h>

#include "core/base/base.h"

void simulation_add(struct simulation *simulation, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *word = base_format_list(format, list);
    va_end(list);
    simulation->word = base_room(simulation->word, simulation->words, sizeof(word));
    simulation->word[simulation->words++] = word;
}

void simulation_release(struct simulation *simulation)
{
    for (int32_t i = 0; i < simulation->words; i++)
        free(simulation->word[i]);
    free(simulation->word);
    free(simulation->what);
    trace_release(&simulation->trace);
    *simulation = (struct simulation){0};
}
