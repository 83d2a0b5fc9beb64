#include "app/train/machine.h"

#include "core/schedule/schedule.h"

SHARED_COLUMNS(machine_copy_columns, NULL, struct machine_copy)
{
    COLUMN("bytes", bytes, .help = "that were copied");
    COLUMN("time_s", time_s, .help = "in the quickest round");
}

SHARED_COLUMNS(machine_trial_columns, NULL, struct machine_trial)
{
    COLUMN("network", network, .help = "that was trained");
    COLUMN("image", image, .help = "side of an image, in pixels");
    COLUMN("batch", batch, .help = "images of a step");
    COLUMN("time_s", time_s, .help = "of an iteration, in the fastest round");
    COLUMN("wall_s", wall_s, .help = "of it by the clock");
    COLUMN("input_s", input_s, .help = "of its input step");
}

COLUMNS(step_columns, NULL, struct machine_step)
{
    COLUMN("name", name, .help = "of the step");
    COLUMN("op", op, .words = compute_op_names);
    COLUMN("layer", layer, .words = layer_op_names);
    COLUMN("dtype", dtype, .words = dtype_names);
    COLUMN("shape", shape, .help = "of the layer");
    COLUMN("amount", amount, .help = "images, or parameters");
    COLUMN("flops", flops, .help = "of the step");
    COLUMN("bytes", bytes, .help = "that it moves");
    COLUMN("kernels", kernels, .help = "that it starts");
    COLUMN("time_s", time_s, .help = "in this round");
    COLUMN("spread", spread, .help = "of its times");
}

COLUMNS(steps_columns, NULL, struct machine_trial)
{
    COLUMN_ROWS(&machine_trial_columns);
    COLUMN("spread", spread, .help = "of its times");
    COLUMN("waited", waited, .help = "part of its time without a processor");
    COLUMN("between_s", between_s, .help = "from an iteration to the next");
    COLUMN("iterations", iterations, .help = "that were measured");
    COLUMN_ITEMS("steps", step, steps, .table = &step_columns);
}

SHARED_COLUMNS(machine_columns, "exec-measure/1", struct machine)
{
    COLUMN("device", device, .words = device_words);
    COLUMN("ranks", ranks, .help = "that measured at once");
    COLUMN("threads", threads, .help = "of a rank");
    COLUMN("fusion", fusion, .words = fusion_names);
    COLUMN_ITEMS("trials", trial, trials, .table = &steps_columns);
    COLUMN_ITEMS("copies", copy, copies, .table = &machine_copy_columns);
}

void machine_release(struct machine *machine)
{
    for (int32_t i = 0; i < machine->trials; i++) {
        struct machine_trial *trial = &machine->trial[i];
        for (int32_t s = 0; s < trial->steps; s++) {
            free(trial->step[s].name);
            free(trial->step[s].shape);
        }
        free(trial->step);
        free(trial->network);
    }
    free(machine->trial);
    free(machine->copy);
    *machine = (struct machine){0};
}
