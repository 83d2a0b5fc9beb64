#include <dirent.h>

#include "app/build_info.h"
#include "app/cli/command.h"
#include "app/commit.h"
#include "app/process/child.h"
#include "app/process/launch.h"
#include "config.h"
#include "core/platform/platform.h"

/* One part of the program, and what to do where it is missing. */
struct part {
    const char *name;
    const char *built;                      /* by what, as the build found it; "": without */
    char *(*find)(const struct part *part); /* what is there now; NULL: nothing.  NULL: as built */
    const char *get;                        /* what brings it */
    const char *purpose;                    /* what it is needed for */
    const char *modules;                    /* of Debian's Python, divided by commas; or NULL */
    char *found;                            /* owned */
    const char *missing;                    /* NULL where it was found */
};

static char *find_platforms(const struct part *part)
{
    AUTORELEASE(err) struct err err = {0};
    return platform_directory(&err);
}

/* A program of ours that is installed, and what it was built with. */
static char *find_program(const struct part *part)
{
    AUTOFREE char *path = child_program(part->name);
    bool with = strcmp(part->built, "yes") != 0;
    return path ? base_format("%s%s%s", path, with ? ", " : "", with ? part->built : "") : NULL;
}

static char *find_ranks(const struct part *part)
{
    return launch_finds("mpirun") || launch_finds("srun")
               ? base_format("%s%s", part->built, launch_finds("mpirun") ? "" : ", by srun alone")
               : NULL;
}

/* The widest vectors that this processor computes with. */
static char *find_cpu(const struct part *part)
{
    const char *vectors = "";
#ifdef __x86_64__
    vectors = __builtin_cpu_supports("avx512f") ? ", AVX-512"
              : __builtin_cpu_supports("avx2")  ? ", AVX2"
                                                : ", SSE: slow";
#endif
    return base_format("%s%s", part->built, vectors);
}

static char *find_gpus(const struct part *part)
{
    int32_t count = 0;
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += *entry->d_name != '.';
    if (folder)
        closedir(folder);
    return count ? base_format("%d of NVIDIA", count) : NULL;
}

static char *find_modules(const struct part *part)
{
    static const char python[] = "/usr/bin/python3";
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(launch) struct launch launch = {0};
    texts_add(&launch.words, "%s", python);
    texts_add(&launch.words, "-c");
    texts_add(&launch.words, "import importlib.util as u, sys; "
                             "sys.exit(not all(map(u.find_spec, sys.argv[1].split(','))))");
    texts_add(&launch.words, "%s", part->modules);
    bool found =
        !launch_keep(&launch, true, &err) && !access(python, X_OK) && !launch_run(&launch, &err);
    return found ? base_format("%s with %s", python, part->modules) : NULL;
}

#define APT "apt-get install "
#define PART(...)                                                                                  \
    {                                                                                              \
        .name = __VA_ARGS__                                                                        \
    }

static const struct part parts[] = {
    PART("platforms", "yes", find_platforms,
         "set FORETRAIN_DATADIR to the folder that has platforms/",
         "every command that names a platform or a device"),
    PART("foretrain-sim", BUILD_SIMGRID, find_program, APT "libsimgrid-dev, then ./setup.sh",
         "simulation; without it, answers are in closed form"),
    PART("foretrain-exec", "yes", find_program, "./setup.sh, or the package foretrain-exec",
         "train, evaluate, validate, collective --measured, calibrate on this machine"),
    PART("ranks", BUILD_MPI, find_ranks, APT "libopenmpi-dev openmpi-bin, then ./setup.sh",
         "training on more than one rank"),
    PART("cpu", BUILD_ONEDNN, find_cpu, APT "libdnnl-dev, then ./setup.sh",
         "train --device cpu; without it, --device naive, which is slow"),
    PART("cuda", BUILD_CUDA, NULL, "CUDA 12 or 13 with cuDNN 9 and NCCL, then ./setup.sh",
         "train --device cuda"),
    PART("gpus", "yes", find_gpus, "a machine with GPUs of NVIDIA, and their driver",
         "train --device cuda"),
    PART("fits", BUILD_GSL, NULL, APT "libgsl-dev, then ./setup.sh", "calibrate"),
    PART("cores", BUILD_HWLOC, NULL, APT "libhwloc-dev, then ./setup.sh",
         "as many threads a rank as there are cores; without it, as hardware threads"),
    PART("foretrain-read", "yes", find_program, "./setup.sh, or the package foretrain", "import"),
    PART("onnx", "yes", find_modules, APT "python3-onnx", "import onnx", "onnx"),
    PART("yaml", "yes", find_modules, APT "python3-yaml", "import slurm, of topology.yaml", "yaml"),
    PART("jpeg", BUILD_JPEG, NULL, APT "libjpeg-dev, then ./setup.sh", "training on JPEG files"),
    PART("png", BUILD_PNG, NULL, APT "libpng-dev, then ./setup.sh", "training on PNG files"),
    PART("webp", BUILD_WEBP, NULL, APT "libwebp-dev, then ./setup.sh", "training on WebP files"),
    PART("sliders", BUILD_SLIDERS, NULL,
         APT "clang lld wasi-libc libclang-rt-dev-wasm32, then ./setup.sh",
         "sliders on the pages of predict --report"),
    PART("notebooks", "yes", find_modules, "./setup.sh notebooks", "the notebooks of the class",
         "nbclient,ipykernel,pandas,matplotlib"),
    PART("torch", "yes", find_modules, APT "python3-torch",
         "exporting networks of your own for import onnx", "torch"),
};

/* What this program is and has. */
struct environment {
    const char *commit; /* NULL: a release */
    const char *compiler;
    struct part part[ARRAY_SIZE(parts)];
};

COLUMNS(part_columns, NULL, struct part)
{
    COLUMN("name", name, .help = "the part");
    COLUMN("found", found, .null = true,
           .help = "what it is, with version or place; null: missing");
    COLUMN("missing", missing, .null = true, .help = "why it is missing");
    COLUMN("get", get, .help = "what brings it");
    COLUMN("needed_for", purpose, .help = "what it is needed for");
}
COLUMNS(environment_columns, "env/2", struct environment)
{
    COLUMN("commit", commit, .null = true, .help = "that was built; null: a release");
    COLUMN("compiler", compiler, .help = "that built it");
    COLUMN_ARRAY("parts", part, .table = &part_columns, .help = "what it can use");
}

/* The commit; NULL: that of the release of this version. */
static const char *commit(void)
{
    return strcmp(BUILD_COMMIT, "v" FORETRAIN_VERSION) ? BUILD_COMMIT : NULL;
}

void command_version(struct text *out)
{
    text_add(out, "foretrain %s", FORETRAIN_VERSION);
    if (commit())
        text_add(out, " before its release, commit %s", commit());
    for (int missing = 0; missing < 2; missing++) {
        const char *before = missing ? "\nwithout " : "\nwith ";
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
            const char *built = parts[i].built;
            if (!strcmp(built, "yes") || missing == (*built != '\0'))
                continue;
            text_add(out, "%s%s", before, missing ? parts[i].name : built);
            before = ", ";
        }
    }
    text_add(out, "\n");
}

static void look(struct part *part)
{
    if (*part->built)
        part->found = part->find ? part->find(part) : base_copy(part->built);
    if (!part->found)
        part->missing = *part->built ? "not found on this machine"
                                     : "not found, or switched off, when foretrain was built";
}

static void print_text(struct text *out, const struct environment *all)
{
    command_version(out);
    text_add(out, "compiled by %s\n\n", all->compiler);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const struct part *part = &all->part[i];
        text_add(out, "%-15s %s\n", part->name, part->found ? part->found : part->missing);
        if (!part->found)
            text_add(out, "%-15s it is needed for %s\n%-15s to get it: %s\n", "", part->purpose, "",
                     part->get);
    }
}

static int show_environment(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    struct environment all = {.commit = commit(), .compiler = BUILD_COMPILER};
    memcpy(all.part, parts, sizeof(parts));
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        look(&all.part[i]);
    if (request->json)
        answer_print(out, &environment_columns, &all);
    else
        print_text(out, &all);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        free(all.part[i].found);
    return 0;
}

static const struct option options[] = {ROW_JSON, ROW_LAST};

const struct command command_env = {
    .name = "env",
    .synopsis = "[options]",
    .help = "what this program can do here; what is missing, and how to get it",
    .examples = "foretrain env",
    RECORD(options, struct request, NULL),
    ANSWERS(&environment_columns),
    .run = show_environment,
};
