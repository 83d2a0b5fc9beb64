#include "app/import/import_xml.h"

#include <expat.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

#if XML_MAJOR_VERSION == 2 && XML_MINOR_VERSION < 9
#define XML_GetCurrentLineNumber64 XML_GetCurrentLineNumber /* deprecated since */
#endif

enum { LEVEL_LIMIT = 64, ELEMENT_LIMIT = 100000 };

/* What expat's handlers share. */
struct reading {
    XML_Parser parser;
    struct xml *root, *open;
    int32_t level, elements;
    const char *refusal; /* why reading stopped, or NULL */
};

static void stop(struct reading *reading, const char *why)
{
    if (!reading->refusal)
        reading->refusal = why;
    XML_StopParser(reading->parser, XML_FALSE);
}

static void begin(void *context, const XML_Char *name, const XML_Char **attribute)
{
    struct reading *reading = context;
    if (reading->refusal)
        return;
    if (++reading->level > LEVEL_LIMIT || ++reading->elements > ELEMENT_LIMIT) {
        stop(reading, "more than 64 levels or 100000 elements");
        return;
    }
    int32_t count = 0;
    while (attribute[count])
        count++;
    struct xml *element = base_alloc(1, sizeof(*element)), *parent = reading->open;
    element->name = base_copy(name);
    element->line = (int32_t)XML_GetCurrentLineNumber64(reading->parser);
    element->attribute = base_alloc(count + 1, sizeof(*element->attribute));
    for (int32_t i = 0; i < count; i++)
        element->attribute[i] = base_copy(attribute[i]);
    element->parent = parent;
    if (parent) {
        parent->child = base_room(parent->child, parent->child_count, sizeof(struct xml *));
        parent->child[parent->child_count++] = element;
    } else {
        reading->root = element;
    }
    reading->open = element;
}

static void end(void *context, const XML_Char *name)
{
    struct reading *reading = context;
    if (reading->refusal)
        return;
    reading->level--;
    reading->open = reading->open->parent;
}

static void refuse_entity(void *context, const XML_Char *name, int parameter, const XML_Char *value,
                          int length, const XML_Char *base, const XML_Char *system,
                          const XML_Char *public, const XML_Char *notation)
{
    stop(context, "entities of its own, which no topology has");
}

struct xml *xml_read(const char *file, const char *text, int64_t length, struct err *err)
{
    struct reading reading = {.parser = XML_ParserCreate(NULL)};
    if (!reading.parser)
        base_out_of_memory(0);
    XML_SetUserData(reading.parser, &reading);
    XML_SetElementHandler(reading.parser, begin, end);
    XML_SetEntityDeclHandler(reading.parser, refuse_entity);
    bool whole =
        length < INT32_MAX && XML_Parse(reading.parser, text, (int)length, 1) == XML_STATUS_OK;
    if (!whole) {
        const char *why =
            reading.refusal ? reading.refusal : XML_ErrorString(XML_GetErrorCode(reading.parser));
        err_add(err, "%s:%d: not the XML that was expected: %s; write the file again", file,
                (int)XML_GetCurrentLineNumber64(reading.parser), why);
        xml_free(reading.root);
    }
    XML_ParserFree(reading.parser);
    return whole ? reading.root : NULL;
}

const char *xml_get(const struct xml *element, const char *key)
{
    for (char **pair = element->attribute; *pair; pair += 2)
        if (!strcmp(pair[0], key))
            return pair[1];
    return "";
}

void xml_walk(const struct xml *element, void (*visit)(void *context, const struct xml *element),
              void *context)
{
    visit(context, element);
    for (int32_t i = 0; i < element->child_count; i++)
        xml_walk(element->child[i], visit, context);
}

void xml_free(struct xml *element)
{
    if (!element)
        return;
    for (int32_t i = 0; i < element->child_count; i++)
        xml_free(element->child[i]);
    for (char **text = element->attribute; *text; text++)
        free(*text);
    free(element->attribute);
    free(element->child);
    free(element->name);
    free(element);
}
