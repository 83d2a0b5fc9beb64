#include "core/scenario/scenario_record.h"

#include <assert.h>

static const char *const rounding_names[] = {"exact", "down", "up", NULL};
static_assert(sizeof(rounding_names) / sizeof(*rounding_names) == ROUND_COUNT + 1, "a word each");

static const struct field phase_rows[] = {
    {.path = "epochs",
     .kind = FIELD_REAL,
     .unit = UNIT_EPOCHS,
     .offset = offsetof(struct scenario_phase, epochs),
     .fallback = "",
     .minimum = 0,
     .maximum = 1e6,
     .help = "length of the phase in passes over the training images, more than 0; of the last "
             "phase training.target may decide it"},
    {.path = "batch_per_device",
     .kind = FIELD_INTEGER,
     .offset = offsetof(struct scenario_phase, batch_per_device),
     .fallback = "",
     .minimum = 1,
     .maximum = 1e6,
     .help = "images each device takes per step"},
    {.path = "global_batch",
     .kind = FIELD_INTEGER,
     .offset = offsetof(struct scenario_phase, global_batch),
     .fallback = "",
     .minimum = 1,
     .maximum = 1e9,
     .help = "images all devices together take per step, instead of batch_per_device"},
    {.path = "round",
     .kind = FIELD_WORD,
     .offset = offsetof(struct scenario_phase, round),
     .fallback = "exact",
     .words = rounding_names,
     .help =
         "of a global_batch that the devices cannot share evenly: exact refuses it, down and up "
         "train the nearest one below or above that they can"},
    {.path = "nodes",
     .kind = FIELD_INTEGER,
     .offset = offsetof(struct scenario_phase, nodes),
     .fallback = "",
     .minimum = 1,
     .maximum = 1e6,
     .help = "nodes that take part in a phase before the last one, when not all of cluster.nodes; "
             "a grid keeps its columns; predictions only"},
};
const struct field_table scenario_phase_table = {
    "phase", phase_rows, sizeof(phase_rows) / sizeof(*phase_rows), sizeof(struct scenario_phase)};

static const struct field milestone_rows[] = {
    {.path = "epoch",
     .kind = FIELD_REAL,
     .unit = UNIT_EPOCHS,
     .offset = offsetof(struct scenario_milestone, epoch),
     .minimum = 0,
     .maximum = 1e6,
     .help = "where in the run this factor begins"},
    {.path = "factor",
     .kind = FIELD_REAL,
     .offset = offsetof(struct scenario_milestone, factor),
     .minimum = 0,
     .maximum = 1e6,
     .help = "the learning rate from there on, relative to the base"},
};
const struct field_table scenario_milestone_table = {"milestone", milestone_rows, 2,
                                                     sizeof(struct scenario_milestone)};

static const struct field point_rows[] = {
    {.path = "batch",
     .kind = FIELD_INTEGER,
     .offset = offsetof(struct convergence_point, batch),
     .minimum = 1,
     .maximum = 1e9,
     .help = "images all devices together take per step"},
    {.path = "epochs",
     .kind = FIELD_REAL,
     .unit = UNIT_EPOCHS,
     .offset = offsetof(struct convergence_point, epochs),
     .minimum = 1,
     .maximum = 1e6,
     .help = "epochs to the target with this batch, mean of several runs"},
    {.path = "spread",
     .kind = FIELD_REAL,
     .unit = UNIT_EPOCHS,
     .offset = offsetof(struct convergence_point, spread),
     .fallback = "",
     .minimum = 0,
     .maximum = 1e6,
     .help = "their standard deviation; as MLPerf's reference points have it when not given"},
};
const struct field_table scenario_point_table = {"point", point_rows, 3,
                                                 sizeof(struct convergence_point)};
