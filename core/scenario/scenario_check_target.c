#include <math.h>
#include <string.h>

#include "core/scenario/scenario_record.h"

/* Where the value at @path stands, or NULL when its default applied. */
static const struct origin *given(const struct node *root, const char *path)
{
    const struct node *node = field_origin(root, path);
    return node ? &node->origin : NULL;
}

/* Every phase says its epochs, but for the last one before a target. */
static int check_epochs(const struct scenario *scenario, int32_t index, const struct node *root,
                        struct err *err)
{
    bool open = scenario->training.target > 0 && index == scenario->training.phase.count - 1;
    AUTOFREE char *key = base_format("training.phases.%d.epochs", index);
    const struct origin *origin = given(root, key);
    if (open && origin)
        return origin_error(origin, err,
                            "the last phase ends at training.target; give its epochs or a target, "
                            "not both; --set 'training.phases[%d].epochs=null' takes them out",
                            index);
    if (!open && !origin)
        return origin_error(given(root, "training.phases"), err,
                            "phase %d needs epochs, for example 'epochs: 5'%s", index + 1,
                            index == scenario->training.phase.count - 1
                                ? ", or training.target and training.recipe"
                                : "");
    return 0;
}

static int check_points(const struct scenario *scenario, const struct node *root, struct err *err)
{
    const struct convergence_point *point = scenario->training.point.item;
    for (int32_t i = 1; i < scenario->training.point.count; i++)
        if (point[i].batch <= point[i - 1].batch)
            return origin_error(given(root, "training.recipe.points"), err,
                                "points must stand in the order of their batches, each once");
    return 0;
}

/* Published runs trained one network on one data set to one accuracy. */
static int check_recipe(const struct scenario *scenario, const struct node *root, struct err *err)
{
    enum { IMAGENET = 1281167 };
    const char *own = "give points of your own (training.recipe.points)";
    double target = scenario_convergence(scenario).target;
    if (fabs(target - scenario->training.target) > 1e-9) /* 74.9 % is not quite 0.749 */
        return origin_error(given(root, "training.target"), err,
                            "runs of recipe %s ended at %g %%, and say nothing of %g %%; %s",
                            scenario->training.recipe, 100 * target,
                            100 * scenario->training.target, own);
    const char *network = scenario->model.network;
    if ((strcmp(network, "resnet50") != 0 && strcmp(network, "resnet50_v1.5") != 0) ||
        scenario->training.train_images != IMAGENET)
        return origin_error(given(root, "training.recipe"), err,
                            "recipe %s is of resnet50 on imagenet, not %s on %lld images; %s",
                            scenario->training.recipe, network,
                            (long long)scenario->training.train_images, own);
    return 0;
}

static int check_without_target(const struct node *root, struct err *err)
{
    static const char *const needless[] = {"training.recipe", "training.extrapolate"};
    int result = 0;
    for (int32_t i = 0; i < 2; i++)
        if (given(root, needless[i]))
            result =
                origin_error(given(root, needless[i]), err, "no effect without training.target");
    return result;
}

int scenario_check_target(const struct scenario *scenario, const struct node *root, struct err *err)
{
    int result = 0;
    for (int32_t i = 0; i < scenario->training.phase.count; i++)
        result |= check_epochs(scenario, i, root, err);
    if (!(scenario->training.target > 0))
        return result | check_without_target(root, err);
    const struct origin *target = given(root, "training.target");
    if (!(scenario->training.evaluate_every > 0))
        result = origin_error(target, err,
                              "a run ends at an evaluation that finds the target: give "
                              "training.evaluate_every, for example 4 epochs");
    if (scenario->training.recipe)
        return result | check_recipe(scenario, root, err);
    if (scenario->training.point.count == 0)
        return origin_error(target, err,
                            "a target needs training.recipe (rcp-nvidia, rcp-google, v0.5, v0.6, "
                            "v0.7), or points of your own (training.recipe.points)");
    return result | check_points(scenario, root, err);
}
