#include "app/train/train_answers.h"

COLUMNS(step_columns, NULL, struct train_step)
{
    COLUMN("loss", loss, .null = true, .help = "mean over the images of the step");
    COLUMN("step_s", seconds, .help = "time of the step on rank 0");
}

COLUMNS(rehearsed_columns, NULL, struct train_result)
{
    COLUMN("late_s", late_s, .help = "how late steps of device replay ended, mean");
    COLUMN("latest_s", latest_s, .help = "how late the latest of these steps ended");
}

COLUMNS(traced_columns, NULL, struct train_result)
{
    COLUMN("traced_steps", trace.iterations, .help = "training steps in the trace");
    COLUMN("trace_error_s", trace_error_s, .help = "largest difference of two ranks' clocks");
    COLUMN("trace_cost_s", trace_cost_s, .help = "time to record the trace, on the slowest rank");
}

COLUMNS(result_columns, NULL, struct train_result)
{
    COLUMN("ranks", ranks, .help = "ranks that trained");
    COLUMN("epochs", progress.epoch, .help = "epochs done since the run began");
    COLUMN("steps", progress.step, .help = "training steps done since the run began");
    COLUMN("steps_here", steps, .help = "training steps done by this command");
    COLUMN("seconds", seconds, .help = "time of these steps, without evaluations and checkpoints");
    COLUMN("loss", progress.loss, .null = true, .help = "of the last step of the run");
    COLUMN("top1", progress.top1, .negative = true,
           .help = "top-1 accuracy of the last evaluation; null: there was none");
    COLUMN("top5", progress.top5, .negative = true, .help = "top-5 accuracy of it");
    COLUMN("evaluation_loss", evaluation_loss, .negative = true, .help = "loss of it");
    COLUMN("skipped_images", skipped_images, .help = "images that could not be read");
    COLUMN("skipped_steps", progress.skipped_steps, .help = "steps skipped by overflow");
    COLUMN("loss_scale", progress.loss_scale, .help = "scale of the loss at the end");
    COLUMN("input_wait_s", input_wait_s, .help = "wait for images, on the slowest rank");
    COLUMN("exposed_communication_s", exposed_communication_s,
           .help = "wait for collectives, on the slowest rank");
    COLUMN_ITEMS("step_bytes", moved, moved_count, .absent = true,
                 .help = "memory traffic of each step of the schedule, by its id");
    COLUMN("finished", finished, .help = "the job's plan is done");
    COLUMN("run", progress.run, .zero = true, .help = "name of the run; null: not known");
    COLUMN("checkpoint", checkpoint, .zero = true, .help = "path of the last one; null: none");
    COLUMN("checkpoints", checkpoints, .help = "checkpoints written by this command");
    COLUMN("checkpoint_bytes", checkpoint_bytes, .help = "size of the last one, on rank 0");
}

SHARED_COLUMNS(training_columns, "training/3", struct train_answer)
{
    COLUMN("scenario_sha256", sha256, .help = "of the scenario's text and the overrides");
    COLUMN("schedule_hash", schedule_hash, .help = "of the first phase's schedule");
    COLUMN("network", network, .help = "network that was trained");
    COLUMN("device", device, .help = "cpu, cpu-naive, cuda or replay");
    COLUMN("threads", threads, .help = "threads of a rank");
    COLUMN_MEMBERS(result, &result_columns);
    COLUMN("images_per_s", images_per_s, .null = true,
           .help = "of all ranks, over these steps; null: no step was run");
    COLUMN("loss_first", loss_first, .null = true, .help = "of the first of these steps");
    COLUMN("loss_last", loss_last, .null = true, .help = "of the last of these steps");
    COLUMN_OPTIONAL(rehearsed, &rehearsed_columns);
    COLUMN_OPTIONAL(traced, &traced_columns);
    COLUMN("checkpoint_s", checkpoint_s, .null = true,
           .help = "time that training stands still for a checkpoint; null: none was written");
    COLUMN_ITEMS("step", step, steps, .table = &step_columns);
}

COLUMNS(score_columns, NULL, struct train_score)
{
    COLUMN_ITEMS("checkpoints", checkpoint, checkpoints, .help = "whose mean is scored");
    COLUMN("images", evaluation.images,
           .help = "validation images, of text its tokens, that could be read");
    COLUMN("top1_images", evaluation.top1, .help = "images whose first guess is right");
    COLUMN("top5_images", evaluation.top5, .help = "images with a right one in five guesses");
    COLUMN("top1", top1, .help = "top-1 accuracy, a fraction");
    COLUMN("top5", top5, .help = "top-5 accuracy, a fraction");
    COLUMN("loss", evaluation.loss, .help = "mean cross-entropy, without label smoothing");
}

SHARED_COLUMNS(evaluation_columns, "evaluation/3", struct train_scores)
{
    COLUMN_ITEMS("evaluations", item, count, .table = &score_columns);
}

SHARED_COLUMNS(sample_columns, NULL, struct timing_sample)
{
    COLUMN("time_s", time_s, .help = "of the slowest rank");
    COLUMN("steal", steal, .help = "part of the processors' time that the host took");
    COLUMN("foreign", foreign, .help = "part that other processes took");
    COLUMN("retransmits", retransmits, .help = "TCP segments that were sent again");
    COLUMN("disturbed", disturbed, .help = "1: steal or foreign above their limits");
}
