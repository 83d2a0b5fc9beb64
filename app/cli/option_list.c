#include "app/cli/option.h"

void option_list_format(struct option_list *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    list->item = base_room(list->item, list->count + 1, sizeof(*list->item)); /* and NULL */
    list->item[list->count++] = base_format_list(format, arguments);
    list->item[list->count] = NULL;
    va_end(arguments);
}

void option_list_add(struct option_list *list, const char *text)
{
    option_list_format(list, "%s", text);
}

void option_list_add_all(struct option_list *list, const struct option_list *other)
{
    for (int32_t i = 0; i < other->count; i++)
        option_list_add(list, other->item[i]);
}

void option_list_release(struct option_list *list)
{
    for (int32_t i = 0; i < list->count; i++)
        free((char *)(size_t)list->item[i]);
    free(list->item);
    *list = (struct option_list){0};
}
