#include "core/schedule/layer_step.h"

/* Reads the weights in the type of the arithmetic, writes gradients in the type of the exchange. */
static int64_t pass_bytes(const struct iteration *it, int32_t index, enum pass pass)
{
    const struct layer *layer = &it->model->layer[index];
    bool filter = pass == PASS_BACKWARD_FILTER;
    int32_t compute = dtype_size(it->scenario->model.compute);
    int64_t merged = model_merged_bytes(it->model, index, pass, it->merges, compute);
    if (merged >= 0)
        return it->batch * merged;
    enum fusion fusion = model_fusion(layer, it->fusion, it->merges);
    int64_t bytes = it->batch * model_bytes(it->model, index, pass, fusion, compute);
    if (!filter && layer->op == LAYER_EMBEDDING)
        return bytes;                                    /* reads the rows that it needs */
    int32_t times = filter && layer->weights_of ? 2 : 1; /* one of two layers adds to the other's */
    int32_t size = filter ? dtype_size(it->scenario->model.gradients) : compute;
    return bytes + times * layer_weight_bytes(layer, size);
}

/* A kernel before the product reads what it multiplies and writes it narrow, in the order of rows
 * and of columns, for this product and that of the weights' gradient (Transformer Engine 2,
 * cast_transpose), one for each expert (cast.cpp, multi_tensor_quantize_impl: together with delayed
 * scaling alone); weights are converted once a step, which is left out.  Products that read the
 * same, as those of queries, keys and values, share what is converted.  What is narrow has a byte
 * here, fp4 with its scales almost that. */
static void narrow(const struct iteration *it, const struct layer *layer, enum pass pass,
                   struct step *step)
{
    int64_t size = dtype_size(it->scenario->model.compute), narrower = size - 1;
    int64_t in = it->batch * shape_elements(layer->in),
            out = it->batch * shape_elements(layer->out);
    step->compute.products = (enum products)it->scenario->model.products;
    step->compute.bytes -=
        narrower * ((pass != PASS_BACKWARD_DATA ? in : 0) + (pass != PASS_FORWARD ? out : 0) +
                    (pass != PASS_BACKWARD_FILTER ? layer_weights(layer) : 0));
    bool shared = false;
    for (const struct layer *other = it->model->layer + layer->input[0] + 1; other < layer; other++)
        shared = shared || (other->input[0] == layer->input[0] && layer_is_narrow(other));
    if (pass == PASS_BACKWARD_FILTER || (pass == PASS_FORWARD && shared))
        return;
    step->compute.converted += (size + 2) * (pass == PASS_FORWARD ? in : out);
    step->compute.kernels += it->merges.experts && layer->experts > 1 ? layer->experts : 1;
}

struct step layer_step(struct schedule *schedule, const struct iteration *it, int32_t index,
                       enum compute_op op, enum pass from, enum pass to)
{
    const struct layer *layer = &it->model->layer[index];
    bool attends = it->merges.attention && model_attends(it->model, index);
    struct step step = {.kind = STEP_COMPUTE,
                        .lane = LANE_COMPUTE,
                        .compute = {.op = op,
                                    .layer_op = layer->op,
                                    .layer = index,
                                    .kernel = attends ? KERNEL_ATTENTION : layer_kernel(layer),
                                    .dtype = it->scenario->model.compute,
                                    .amount = it->batch}};
    struct layer whole = *layer; /* FlashAttention alone leaves out what is not attended to */
    if (layer->op == LAYER_MATMUL && it->merges.attention != ATTENTION_FLASH)
        whole.flops = 0;
    char shape[96];
    layer_describe(&whole, shape, sizeof(shape));
    step.compute.shape = schedule_text(schedule, "%s", shape);
    step.name = schedule_text(schedule, "%s %s", layer->name, compute_op_names[op]);
    if (!attends)
        step.compute.product = layer_product(layer, from, it->batch);
    for (enum pass pass = from; pass <= to; pass++) {
        bool merged = model_merged_bytes(it->model, index, pass, it->merges, 1) >= 0;
        if (!merged || (attends && layer->op == LAYER_SOFTMAX)) /* attention's own */
            step.compute.kernels +=
                layer_kernels(layer, pass, model_fusion(layer, it->fusion, it->merges));
        step.compute.flops += it->batch * layer_flops(&whole, pass);
        step.compute.bytes += pass_bytes(it, index, pass);
        if (it->merges.experts && layer->experts > 1)
            step.compute.kernels += layer->experts - 1;
        if (it->scenario->model.products && layer_is_narrow(layer) && layer_has_pass(layer, pass))
            narrow(it, layer, pass, &step);
    }
    return step;
}

/* Fused, a kernel reads the scores and writes probabilities, which another reads.  PyTorch's
 * log_softmax reads the scores twice and writes; backward zeroes a gradient, reads it and the
 * result, and writes: 7 words in fp32, and forward and back a copy from the other type.  Measured
 * (H200, PyTorch 2.11): 30,522 and 128,256 words in fp32 take 34 and 38 bytes each, as copies. */
int64_t layer_loss_bytes(const struct iteration *it)
{
    int32_t size = dtype_size(it->scenario->model.compute);
    int32_t copies = size < 4 ? 2 * (size + 4) : 0;
    return it->merges.passes ? 7 * 4 + copies : 3 * size;
}
