#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/build_info.h"
#include "app/cli/command.h"
#include "app/process/child.h"
#include "app/process/launch.h"
#include "config.h"
#include "core/base/json.h"
#include "core/platform/platform.h"

/* One part that exists, or the reason why it is missing. */
struct part {
    const char *name;
    char *value;  /* owned; NULL: not there */
    char *reason; /* owned; NULL: there */
};

enum { PART_COUNT = 13 };

static struct part find_program(const char *name, const char *library, const char *need)
{
    struct part part = {.name = name, .value = child_program(name)};
    if (!part.value && *library)
        part.reason = base_copy("built, but neither in $FORETRAIN_LIBEXEC, beside foretrain, nor "
                                "in ../libexec/foretrain");
    else if (!part.value)
        part.reason = base_format("built without %s", need);
    return part;
}

/* What foretrain-read has: {python: "3.11", onnx: null}; NULL: it does not run. */
static struct json *ask_reader(void)
{
    AUTORELEASE(err) struct err ignored = {0};
    AUTOFREE char *program = child_program("foretrain-read");
    if (!program)
        return NULL;
    AUTORELEASE(launch)
    struct launch launch = {.output = launch_file(&ignored), .talk = launch_file(&ignored)};
    launch_add(&launch, "%s", program);
    launch_add(&launch, "--env");
    struct json *json = NULL;
    if (launch.output > 0 && launch.talk > 0 && launch_run(&launch, &ignored) == 0) {
        AUTORELEASE(text) struct text text = launch_read(launch.output);
        json = json_read("foretrain-read", text.data ? text.data : "", text.length, &ignored);
    }
    close(launch.output);
    close(launch.talk);
    return json;
}

static struct part find_package(const char *name, const struct json *reader, const char *key,
                                const char *what)
{
    const char *version = json_as_text(json_get(reader, key));
    struct part part = {.name = name, .value = version ? base_copy(version) : NULL};
    if (!version && reader)
        part.reason = base_format("%s not read: apt-get install %s", what, name);
    else if (!version)
        part.reason =
            base_format("%s not read: foretrain-read does not run, which needs python3", what);
    return part;
}

static struct part find_platforms(void)
{
    AUTORELEASE(err) struct err err = {0};
    struct part part = {.name = "platforms", .value = platform_directory(&err)};
    if (!part.value)
        part.reason = base_copy(err_reason(&err));
    return part;
}

static struct part find_library(const char *name, const char *version, const char *reason)
{
    return (struct part){
        .name = name,
        .value = *version ? base_copy(version) : NULL,
        .reason = *version ? NULL : base_copy(reason),
    };
}

static void print_json(struct text *out, const struct part *part)
{
    AUTORELEASE(json) struct json *json = json_new_object();
    json_put_text(json, "schema", "foretrain/env/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put_text(json, "compiler", BUILD_COMPILER);
    for (int32_t i = 0; i < PART_COUNT; i++) {
        struct json *entry = json_new_object();
        json_put_text(entry, "found", part[i].value);
        json_put_text(entry, "reason", part[i].reason);
        json_put(json, part[i].name, entry);
    }
    json_print(out, json);
}

static void print_text(struct text *out, const struct part *part)
{
    text_add(out, "foretrain %s, compiled by %s\n", FORETRAIN_VERSION, BUILD_COMPILER);
    for (int32_t i = 0; i < PART_COUNT; i++)
        text_add(out, "%-14s %s%s\n", part[i].name,
                 part[i].value ? "" : "no: ", part[i].value ? part[i].value : part[i].reason);
}

static int show_environment(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    AUTORELEASE(json) struct json *reader = ask_reader();
    struct part part[PART_COUNT] = {
        find_platforms(),
        find_program("foretrain-sim", BUILD_SIMGRID, "SimGrid (libsimgrid-dev)"),
        find_program("foretrain-exec", "always", ""),
        find_program("foretrain-read", "always", ""),
        find_package("python3-yaml", reader, "yaml", "Slurm's topology.yaml is"),
        find_package("python3-onnx", reader, "onnx", "ONNX files are"),
        find_library("simgrid", BUILD_SIMGRID, "not found, or switched off, at build time"),
        find_library("mpi", BUILD_MPI,
                     "not found, or switched off, at build time: foretrain-exec runs on one "
                     "rank"),
        find_library("libfyaml", BUILD_LIBFYAML, ""),
        find_library("jansson", BUILD_JANSSON, ""),
        find_library("libjpeg", BUILD_JPEG,
                     "JPEG images cannot be read: libjpeg-dev was not found, or switched "
                     "off, at build time"),
        find_library("xxhash", BUILD_XXHASH,
                     "packs cannot be read: libxxhash-dev was not found, or switched off, at build "
                     "time"),
        find_library("sliders", BUILD_WASM,
                     "pages have none: clang for wasm32 (clang, lld, wasi-libc, "
                     "libclang-rt-dev-wasm32) was not found, or switched off, at build time"),
    };
    if (request->json)
        print_json(out, part);
    else
        print_text(out, part);
    for (int32_t i = 0; i < PART_COUNT; i++) {
        free(part[i].value);
        free(part[i].reason);
    }
    return 0;
}

static const struct option options[] = {ROW_JSON, ROW_LAST};

const struct command command_env = {
    .name = "env",
    .synopsis = "[options]",
    .help = "what this build can do, and why not more",
    .examples = "",
    RECORD(options, struct request, NULL),
    .run = show_environment,
};
