/* Memory traffic and kernel counts, from what each kernel must read and write.
 *
 * In the sums below x is the input of a batch norm, y the output after its ReLU, dy and dx their
 * gradients, dz the gradient before the ReLU, and a mask the one bit per element that a ReLU needs.
 */

#include "core/schedule/model.h"

/* A layer, whose value it reads, what that adds, its value's first reader, and that one's. */
struct neighbours {
    const struct layer *layer, *before, *added, *after, *second; /* NULL: none */
    const struct model *model;
    enum pass pass;
    enum fusion fusion;
    int32_t size; /* of an element [bytes] */
};

/* A batch norm that stands apart, or is not trained, is merged with its ReLU and add at most. */
static enum fusion norm_fusion(const struct layer *layer, enum fusion fusion)
{
    return (layer->apart || layer->frozen) && fusion > FUSION_BN_RELU ? FUSION_BN_RELU : fusion;
}

static int64_t bytes(const struct neighbours *p, struct shape shape)
{
    return shape_elements(shape) * p->size;
}

static int64_t mask_bytes(struct shape shape)
{
    return (shape_elements(shape) + 7) / 8;
}

/* The place of each maximum: a 64-bit position, or one byte within the window. */
static int64_t index_bytes(const struct neighbours *p, const struct layer *pool)
{
    return shape_elements(pool->out) * (p->fusion == FUSION_NONE ? 8 : 1);
}

static bool is(const struct layer *layer, enum layer_op op)
{
    return layer && layer->op == op;
}

/* Additional work of a data gradient kernel when the batch norm before it has no backward reduction
 * of its own: it applies the ReLU and sums dz and dz * x, so it reads x.  A plain ReLU follows from
 * x; after a residual add it needs the mask, and a projection has sums, and an x, of its own. */
static int64_t reduction_bytes(const struct neighbours *p)
{
    if (!is(p->before, LAYER_BATCH_NORM) || norm_fusion(p->before, p->fusion) < FUSION_MAINLOOP ||
        p->layer->projection)
        return 0;
    struct shape x = p->before->out;
    if (p->added && p->added->projection)
        return 2 * bytes(p, x) + mask_bytes(x);
    return bytes(p, x) + (p->before->residual ? mask_bytes(x) : 0);
}

/* Bytes that the backward kernels read for the gradient of the output: if the batch norm after the
 * layer is folded into them, they compute it from dz and x.  One before a pool is never folded. */
static int64_t gradient_bytes(const struct neighbours *p)
{
    bool pooled = is(p->second, LAYER_MAX_POOL);
    bool folded = is(p->after, LAYER_BATCH_NORM) &&
                  norm_fusion(p->after, p->fusion) == FUSION_IDEAL && !pooled;
    return (folded ? 2 : 1) * bytes(p, p->layer->out);
}

/* Images are stored with channels padded to a multiple of 4, which tensor cores need. */
static int64_t input_bytes(const struct neighbours *p)
{
    struct shape in = p->layer->in;
    if (p->layer->first)
        in.channels = (in.channels + 3) / 4 * 4;
    return bytes(p, in);
}

static int64_t relu_backward_bytes(const struct neighbours *p)
{
    if (!p->layer->relu)
        return 0;
    int64_t out = bytes(p, p->layer->out);
    bool masks = p->fusion >= FUSION_BN_RELU;
    return 2 * out + (masks ? mask_bytes(p->layer->out) : out); /* dy, dz and the mask or y */
}

/* Convolutions and linear layers. */
static int64_t matrix_bytes(const struct neighbours *p)
{
    const struct layer *layer = p->layer;
    int64_t in = input_bytes(p), out = bytes(p, layer->out);
    switch (p->pass) {
    case PASS_FORWARD: {
        int64_t relu = layer->relu && p->fusion == FUSION_NONE ? 2 * out : 0;
        /* The first convolution of a block makes y from x and the residual.  It does so for every
         * block, also the first, whose input is pooled: there one read too many. */
        int64_t residual = layer->fork && p->fusion == FUSION_IDEAL ? in : 0;
        return in + residual + out + relu;
    }
    case PASS_BACKWARD_DATA: {
        if (layer->first)
            return 0;
        int64_t added = layer->fork ? in : 0; /* in place, read first */
        if (p->fusion == FUSION_NONE)         /* counted with a batch norm, if one follows */
            added = is(p->after, LAYER_BATCH_NORM) ? 0 : 3 * added;
        int64_t relu = layer->frozen ? relu_backward_bytes(p) : 0;
        return gradient_bytes(p) + in + added + reduction_bytes(p) + relu;
    }
    default:
        return gradient_bytes(p) + in + relu_backward_bytes(p);
    }
}

static int64_t batch_norm_forward_tensors(const struct neighbours *p)
{
    const struct layer *layer = p->layer;
    switch (norm_fusion(layer, p->fusion)) {
    case FUSION_NONE: /* x for the statistics; x, y; residual add: 2 in, 1 out; ReLU: in and out */
        return 3 + (layer->residual ? 3 : 0) + (layer->relu ? 2 : 0);
    case FUSION_POINTWISE:
    case FUSION_BN_RELU:
        return 3 + layer->residual;
    case FUSION_STATS: /* x, y; the block's last batch norm applies the projection's too */
        return layer->projection ? 0 : 2 + layer->residual;
    case FUSION_MAINLOOP: /* applied by the next convolution, or with the add, or in the pool */
        return layer->residual ? 3 : is(p->after, LAYER_MAX_POOL);
    default: /* of the add only y remains here; the next convolution reads x and the residual */
        return layer->residual || is(p->after, LAYER_MAX_POOL);
    }
}

static int64_t batch_norm_backward_bytes(const struct neighbours *p)
{
    const struct layer *layer = p->layer;
    int64_t out = bytes(p, layer->out), mask = mask_bytes(layer->out);
    enum fusion fusion = norm_fusion(layer, p->fusion);
    if (fusion >= FUSION_MAINLOOP && is(p->after, LAYER_MAX_POOL)) /* dz from the pool's dy */
        return 2 * out + bytes(p, p->after->out) + index_bytes(p, p->after);
    switch (fusion) {
    case FUSION_NONE: { /* x, dy for the sums; x, dy, dx; ReLU: dy, y, dz; add where branches meet
                         */
        int64_t fork = p->before && p->before->fork ? 3 * bytes(p, p->before->in) : 0;
        return (5 + (layer->relu ? 3 : 0)) * out + fork;
    }
    case FUSION_POINTWISE: /* as above, with two more reads of y; dz is kept for the residual */
        return (5 + (layer->relu ? 2 : 0) + layer->residual) * out;
    case FUSION_BN_RELU:
    case FUSION_STATS: /* dz is written with the sums where it is kept, else masked twice */
        if (layer->residual)
            return 6 * out + mask;
        return 5 * out + (layer->relu ? 2 * mask : 0);
    case FUSION_MAINLOOP: /* sums come with dz: x, dz, dx */
        return 3 * out;
    default:
        return 0;
    }
}

/* Factor and shift of each channel: y from x; dx from dy, once the ReLU is undone. */
static int64_t fixed_norm_bytes(const struct neighbours *p)
{
    const struct layer *layer = p->layer;
    bool none = p->fusion == FUSION_NONE, forward = p->pass == PASS_FORWARD;
    int64_t out = bytes(p, layer->out);
    int64_t fork = p->before && p->before->fork ? 3 * bytes(p, p->before->in) : 0;
    if (forward) /* alone: a product, a sum, a residual add and a ReLU */
        return (none ? 4 + 3 * layer->residual + 2 * layer->relu : 2 + layer->residual) * out;
    if (none)
        return (2 + 3 * layer->relu) * out + fork;
    return (2 + layer->residual) * out + layer->relu * mask_bytes(layer->out);
}

static int64_t batch_norm_bytes(const struct neighbours *p)
{
    if (p->layer->frozen)
        return p->pass == PASS_BACKWARD_FILTER ? 0 : fixed_norm_bytes(p);
    switch (p->pass) {
    case PASS_FORWARD:
        return batch_norm_forward_tensors(p) * bytes(p, p->layer->out);
    case PASS_BACKWARD_DATA:
        return batch_norm_backward_bytes(p);
    default:
        return 0;
    }
}

static int64_t max_pool_bytes(const struct neighbours *p)
{
    if (p->pass == PASS_BACKWARD_FILTER)
        return 0;
    int64_t out = bytes(p, p->layer->out) + index_bytes(p, p->layer);
    /* Where it applies the batch norm, that includes the read of x.  In backward it reads x, for
     * the sums, instead of writing the gradient. */
    bool applies =
        is(p->before, LAYER_BATCH_NORM) && norm_fusion(p->before, p->fusion) >= FUSION_MAINLOOP;
    return out + (applies && p->pass == PASS_FORWARD ? 0 : bytes(p, p->layer->in));
}

/* The pooled vector is left out: it is small and stays in the cache. */
static int64_t average_pool_bytes(const struct neighbours *p)
{
    if (p->pass == PASS_BACKWARD_FILTER)
        return 0;
    return bytes(p, p->layer->in) + (p->pass == PASS_BACKWARD_DATA ? reduction_bytes(p) : 0);
}

/* Elements of all inputs. */
static int64_t input_elements(const struct neighbours *p)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < p->layer->input_count; i++)
        sum += shape_elements(model_shape(p->model, p->layer->input[i]));
    return sum;
}

/* Gradients added to those of other readers: the last reader in the list writes the first. */
static int64_t accumulated_bytes(const struct neighbours *p)
{
    int64_t sum = 0;
    int32_t index = (int32_t)(p->layer - p->model->layer);
    for (int32_t i = 0; i < p->layer->input_count; i++) {
        int32_t from = p->layer->input[i];
        if (from >= 0 && p->model->layer[from].last_reader > index && !p->model->layer[from].still)
            sum += bytes(p, p->model->layer[from].out);
    }
    return sum * (p->fusion == FUSION_NONE ? 3 : 1);
}

/* Kinds for predictions only: each reads its inputs once and writes its output. */
static int64_t simple_bytes(const struct neighbours *p)
{
    const struct layer *layer = p->layer;
    int64_t in = input_elements(p), out = shape_elements(layer->out);
    bool forward = p->pass == PASS_FORWARD;
    if (p->pass == PASS_BACKWARD_FILTER)
        return 0;
    switch (layer->op) {
    case LAYER_RELU:
    case LAYER_GELU:
    case LAYER_SILU:
    case LAYER_SOFTMAX: /* x or y, dy, dx */
        return (forward ? 2 : 3) * out * p->size;
    case LAYER_DROPOUT:
        return 2 * out * p->size + out;
    case LAYER_LAYER_NORM: /* x, dy, dx; x, dy for the parameters */
    case LAYER_RMS_NORM:
    case LAYER_GROUP_NORM:
        return (forward ? 2 : 5) * out * p->size;
    case LAYER_MULTIPLY: /* both, dy; a gradient for each */
        return (forward ? in + out : 2 * in + out) * p->size;
    case LAYER_ADD: /* both inputs have the gradient of the output; of a parameter it is summed */
        return (forward ? in + out : layer->constants ? out : 0) * p->size;
    case LAYER_EMBEDDING:
    case LAYER_PERMUTE:
        return 2 * out * p->size;
    case LAYER_MATMUL: /* of each input */
        return (forward ? in + out : 2 * (in + out)) * p->size;
    default:
        return (layer->elements ? layer->elements : in + out) * p->size;
    }
}

static const struct layer *at(const struct model *model, int32_t index)
{
    return index < 0 ? NULL : &model->layer[index];
}

int64_t model_bytes(const struct model *model, int32_t index, enum pass pass, enum fusion fusion,
                    int32_t element_size)
{
    const struct layer *layer = &model->layer[index], *before = at(model, layer->input[0]),
                       *after = at(model, layer->reader);
    struct neighbours among = {
        .layer = layer,
        .model = model,
        .before = before,
        .added = before && before->residual ? at(model, before->input[1]) : NULL,
        .after = after,
        .second = after ? at(model, after->reader) : NULL,
        .pass = pass,
        .fusion = fusion,
        .size = element_size,
    };
    int64_t more = pass == PASS_BACKWARD_DATA ? accumulated_bytes(&among) : 0;
    if (!layer_has_pass(layer, pass))
        return 0;
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR:
        return matrix_bytes(&among);
    case LAYER_BATCH_NORM:
        return batch_norm_bytes(&among) + more;
    case LAYER_MAX_POOL:
        return max_pool_bytes(&among) + more;
    case LAYER_AVERAGE_POOL:
        return average_pool_bytes(&among) + more;
    default:
        return simple_bytes(&among) + more;
    }
}

static int32_t matrix_kernels(const struct layer *layer, enum pass pass, enum fusion fusion)
{
    bool none = fusion == FUSION_NONE;
    switch (pass) {
    case PASS_FORWARD:
        return 1 + (none && layer->relu);
    case PASS_BACKWARD_DATA:
        return layer->first ? 0 : 1 + (none && layer->fork) + (layer->frozen && layer->relu);
    default:
        return 1 + layer->relu + (none && layer->bias);
    }
}

static int32_t batch_norm_kernels(const struct layer *layer, enum pass pass, enum fusion fusion)
{
    bool forward = pass == PASS_FORWARD;
    if (layer->frozen)
        return fusion != FUSION_NONE ? 1 : 1 + forward + layer->relu + (forward && layer->residual);
    switch (norm_fusion(layer, fusion)) {
    case FUSION_NONE: /* reduce, apply, and each pointwise operation */
        return 2 + layer->relu + (forward && layer->residual);
    case FUSION_POINTWISE: /* reduce, apply */
        return 2;
    case FUSION_BN_RELU:
        return 1;
    case FUSION_STATS: /* coefficients from the sums, apply */
        return forward ? 1 + !layer->projection : 1;
    case FUSION_MAINLOOP:
        return forward ? 1 + layer->residual : 2;
    default: /* coefficients */
        return 1;
    }
}

int32_t layer_kernels(const struct layer *layer, enum pass pass, enum fusion fusion)
{
    if (!layer_has_pass(layer, pass))
        return 0;
    if (layer_has_arithmetic(layer))
        return matrix_kernels(layer, pass, fusion);
    if (pass == PASS_BACKWARD_FILTER)
        return 0;
    if (layer->op == LAYER_BATCH_NORM)
        return batch_norm_kernels(layer, pass, fusion);
    bool twice = layer->op == LAYER_MATMUL || layer->op == LAYER_MULTIPLY ||
                 layer->op == LAYER_LAYER_NORM || layer->op == LAYER_RMS_NORM ||
                 layer->op == LAYER_GROUP_NORM;
    return pass == PASS_BACKWARD_DATA && twice ? 2 : 1;
}
