#include "core/platform/device_table.h"

/* --- rows --- */

#define WORD(key, record, member, list, missing, meaning)                                          \
    FIELD_ROW(key, record, member, missing, meaning, .kind = FIELD_WORD, .words = list)
#define NUMBER(key, record, member, form, measure, missing, low, high, meaning)                    \
    FIELD_ROW(key, record, member, missing, meaning, .kind = form, .unit = measure,                \
              .minimum = low, .maximum = high)

static const struct field class_rows[] = {
    WORD("op", device_class, op, compute_op_names, NULL, "which part of a training step"),
    WORD("layer", device_class, layer, layer_op_names, "none", "of which kind of layer"),
    WORD("dtype", device_class, dtype, dtype_names, NULL, "type of the arithmetic's inputs"),
    NUMBER("efficiency", device_class, efficiency, FIELD_QUANTITY, UNIT_FRACTION, NULL, 1e-4, 1,
           "the part of the peak and of the memory bandwidth that these steps reach"),
    NUMBER("efficiency_sd", device_class, efficiency_sd, FIELD_REAL, UNIT_FRACTION, "0", 0, 10,
           "relative standard deviation of the efficiency"),
    NUMBER("residual", device_class, residual, FIELD_REAL, UNIT_FRACTION, "0", 0, 10,
           "relative standard deviation of a step about the fit"),
    NUMBER("rows", device_class, rows, FIELD_INTEGER, UNIT_NONE, "0", 0, 1e9,
           "measured steps behind it"),
};
const struct field_table device_class_table = FIELD_TABLE("class", class_rows, struct device_class);

static const struct field profile_rows[] = {
    FIELD_ROW("network", device_profile, network, NULL, "as model.network of the job",
              .kind = FIELD_TEXT),
    NUMBER("batch", device_profile, batch, FIELD_INTEGER, UNIT_NONE, NULL, 1, 1e9,
           "images on a device"),
    NUMBER("spread", device_profile, spread, FIELD_REAL, UNIT_FRACTION, NULL, 0, 10,
           "relative standard deviation of its steps"),
};
const struct field_table device_profile_table =
    FIELD_TABLE("profile", profile_rows, struct device_profile);

static const struct field row_rows[] = {
    WORD("op", device_row, op, compute_op_names, NULL, "which part of a training step"),
    FIELD_ROW("shape", device_row, shape, NULL,
              "of the layer, as `foretrain calibrate device` writes it", .kind = FIELD_TEXT),
    WORD("dtype", device_row, dtype, dtype_names, NULL, "type of the arithmetic's inputs"),
    NUMBER("amount", device_row, amount, FIELD_INTEGER, UNIT_NONE, NULL, 1, 1e15,
           "images of the pass, or the optimizer's parameters"),
    NUMBER("time", device_row, time, FIELD_REAL, UNIT_SECONDS, NULL, 1e-12, 1e6,
           "what the step took"),
    NUMBER("spread", device_row, spread, FIELD_REAL, UNIT_FRACTION, "0", 0, 1e3,
           "between the quartiles of its runs, relative to the time"),
};
const struct field_table device_row_table =
    FIELD_TABLE("measured step", row_rows, struct device_row);

/* --- looking up --- */

double device_profiled(const struct device *device, const char *network, int64_t batch)
{
    const struct device_profile *profile = device->profiles.item;
    for (int32_t i = 0; i < device->profiles.count; i++)
        if (profile[i].batch == batch && !strcmp(profile[i].network, network))
            return profile[i].spread;
    return -1;
}

const struct device_class *device_find_class(const struct device *device, const struct step *step)
{
    const struct device_class *class = device->classes.item;
    int32_t layer = step->compute.layer < 0 ? LAYER_OP_COUNT : (int32_t)step->compute.layer_op;
    for (int32_t i = 0; i < device->classes.count; i++)
        if (class[i].op == (int32_t)step->compute.op && class[i].layer == layer &&
            class[i].dtype == (int32_t)step->compute.dtype)
            return &class[i];
    return NULL;
}

static bool same_shape(const struct device_row *row, int32_t op, int32_t dtype, const char *shape)
{
    return row->op == op && row->dtype == dtype && !strcmp(row->shape, shape);
}

/* The value at @x of the line through two points. */
static double line(double x, double x0, double y0, double x1, double y1)
{
    return y0 + (x - x0) * (y1 - y0) / (x1 - x0);
}

double device_measured(const struct device *device, const struct step *step)
{
    const struct device_row *row = device->measured.steps.item, *below = NULL, *above = NULL;
    int64_t amount = step->compute.amount;
    for (int32_t i = 0; i < device->measured.steps.count; i++) {
        if (!same_shape(&row[i], (int32_t)step->compute.op, (int32_t)step->compute.dtype,
                        step->compute.shape))
            continue;
        if (row[i].amount <= amount && (!below || row[i].amount > below->amount))
            below = &row[i];
        if (row[i].amount >= amount && (!above || row[i].amount < above->amount))
            above = &row[i];
    }
    if (!below && !above)
        return -1;
    if (below && above)
        return below == above ? below->time
                              : line((double)amount, (double)below->amount, below->time,
                                     (double)above->amount, above->time);
    const struct device_row *nearest = below ? below : above;
    double idle = step->compute.kernels * device->kernel_overhead.value;
    if (idle > nearest->time)
        idle = nearest->time;
    return line((double)amount, 0, idle, (double)nearest->amount, nearest->time);
}

/* --- checking --- */

static int fault(const struct node *root, const char *list, int32_t index, struct err *err,
                 const char *message)
{
    AUTOFREE char *path = base_format("%s.%d", list, index);
    const struct node *node = field_origin(root, path);
    return origin_error(&node->origin, err, "%s", message);
}

static int compare_rows(const void *a, const void *b)
{
    const struct device_row *x = *(const struct device_row *const *)a,
                            *y = *(const struct device_row *const *)b;
    int order = strcmp(x->shape, y->shape);
    if (!order)
        order = x->op != y->op ? x->op - y->op : x->dtype - y->dtype;
    return order ? order : (x->amount > y->amount) - (x->amount < y->amount);
}

static int check_steps(const struct device *device, const struct node *root, struct err *err)
{
    const struct device_row *row = device->measured.steps.item;
    int32_t count = device->measured.steps.count;
    AUTOFREE const struct device_row **sorted = base_alloc(count, sizeof(struct device_row *));
    int result = 0;
    for (int32_t i = 0; i < count; i++)
        sorted[i] = &row[i];
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_rows);
    for (int32_t i = 1; i < count; i++) {
        const struct device_row *a = sorted[i - 1], *b = sorted[i];
        if (!same_shape(a, b->op, b->dtype, b->shape))
            continue;
        if (a->amount == b->amount)
            result |= fault(root, "measured.steps", (int32_t)(b - row), err,
                            "the same op, shape, dtype and amount are given twice");
        else if (a->time > b->time)
            result |= fault(root, "measured.steps", (int32_t)(b - row), err,
                            "more of the same work takes less time than in another row");
    }
    return result;
}

int device_check(const struct device *device, const struct node *root, struct err *err)
{
    const struct device_class *class = device->classes.item;
    const struct node *others = field_origin(root, "other_networks");
    int result = check_steps(device, root, err);
    if (others && !device->measured.steps.count)
        result |= origin_error(&others->origin, err,
                               "'other_networks' has no effect without 'measured.steps'");
    for (int32_t b = 0; b < device->classes.count; b++)
        for (int32_t a = 0; a < b; a++)
            if (class[a].op == class[b].op && class[a].layer == class[b].layer &&
                class[a].dtype == class[b].dtype)
                result |=
                    fault(root, "classes", b, err, "the same op, layer and dtype are given twice");
    return result;
}
