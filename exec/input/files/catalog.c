#include "exec/input/files/catalog.h"

void catalog_close(struct catalog *catalog)
{
    if (catalog->listing)
        catalog->ops->close(catalog->listing);
    *catalog = (struct catalog){0};
}
