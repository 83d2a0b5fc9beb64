#pragma once

/** @file
 * A network as a list of layers with exact counts: parameters, FLOPs and bytes from shapes.
 *
 * Layers are in forward order, one entry per kernel-sized operation; batch norm carries the ReLU
 * and the residual add that follow it.  Devices train the first five kinds, those on CPUs more
 * (core/schedule/trainable.h); the others are for predictions.  Counts are per image unless said
 * otherwise and are exact integers.  One multiply-add is two FLOP.  Shapes are (channels, height,
 * width); of a sequence (features, 1, positions).
 */

#include <stddef.h>

#include "core/base/dtype.h"
#include "core/collective/collective.h"

/** Kind of layer. */
enum layer_op {
    LAYER_CONVOLUTION,
    LAYER_BATCH_NORM,
    LAYER_MAX_POOL,
    LAYER_AVERAGE_POOL,
    LAYER_LINEAR,     /**< of all its input at once */
    LAYER_TRANSPOSED, /**< convolution: each input value spreads over a window */
    LAYER_RELU,       /**< where none of the above carries it */
    LAYER_GELU,
    LAYER_SILU,     /**< and other gates of one value: sigmoid, hard swish */
    LAYER_DROPOUT,  /**< with a mask of a byte for each value */
    LAYER_ADD,      /**< of its inputs, or of one and a parameter */
    LAYER_MULTIPLY, /**< of two inputs, the smaller one repeated */
    LAYER_CONCAT,
    LAYER_MATMUL, /**< of two inputs, in as many pairs as the shapes say */
    LAYER_SOFTMAX,
    LAYER_LAYER_NORM, /**< over the channels */
    LAYER_RMS_NORM,   /**< over the channels, without a bias */
    LAYER_GROUP_NORM, /**< over groups of channels, with a scale and bias for each channel */
    LAYER_EMBEDDING,  /**< a row of a table for each input value */
    LAYER_PERMUTE,    /**< moves its output's values: transposes, slices, rolls, pads */
    LAYER_OTHER,      /**< counted by what it moves */
    LAYER_OP_COUNT
};

/** "convolution", ... in the order of enum layer_op, then "none", for LAYER_OP_COUNT, and NULL. */
extern const char *const layer_op_names[];

/** Kinds of kernels, each of which reaches another part of what a device can do. */
enum kernel_kind {
    KERNEL_GEMM,        /**< linear layers, convolutions with kernel 1, matrix products */
    KERNEL_CONVOLUTION, /**< with a larger window */
    KERNEL_GROUPED,     /**< with several groups of channels */
    KERNEL_DEPTHWISE,   /**< with a group for each input channel: no matrix arithmetic */
    KERNEL_BATCH_NORM,
    KERNEL_LAYER_NORM,
    KERNEL_SOFTMAX,
    KERNEL_GELU,
    KERNEL_ELEMENTWISE, /**< all else that reads and writes values: ReLU, add, pools, loss */
    KERNEL_OPTIMIZER,
    KERNEL_ATTENTION, /**< both products of attention and what is between them, as one */
    KERNEL_COUNT
};

/** "gemm", "convolution", ... in the order of enum kernel_kind; NULL-terminated. */
extern const char *const kernel_names[];

/** How much of batch norm, ReLU and add neighbouring kernels do; decides memory traffic alone. */
enum fusion {
    FUSION_NONE,      /**< every operation reads and writes memory */
    FUSION_POINTWISE, /**< pointwise chains merged, as a tracing compiler does */
    FUSION_BN_RELU,   /**< BN+ReLU+add kernels, bit masks, in-place gradient add */
    FUSION_STATS,     /**< convolutions also emit BN statistics */
    FUSION_MAINLOOP,  /**< statistics, and BN apply folded into the next convolution */
    FUSION_IDEAL,     /**< and BN backward apply folded as well */
    FUSION_COUNT
};

/** Words of device files, NULL-terminated, in the order of enum fusion. */
extern const char *const fusion_names[];

/** How software computes attention. */
enum attention {
    ATTENTION_UNFUSED, /**< products, scale, mask, softmax, dropout: a kernel each */
    ATTENTION_FUSED,   /**< one kernel, which keeps the weights of all positions for backward */
    ATTENTION_FLASH,   /**< and computes those again (Dao et al. 2022, "FlashAttention") */
    ATTENTION_COUNT
};

/** Words of software profiles, NULL-terminated, in the order of enum attention. */
extern const char *const attention_names[];

/** What software merges of layers that are for predictions only, and what it keeps of them. */
struct merges {
    enum attention attention;
    bool epilogues;  /**< activations, dropout and adds are part of the kernel before them */
    bool passes;     /**< the loss is computed in fp32, operation by operation */
    bool sends;      /**< ranks that share layers send the next stage a part each, and gather what
                          they receive */
    bool exchanges;  /**< of ranks that share layers and sequences run beside products */
    bool experts;    /**< a kernel for the product of each */
    bool turned;     /**< queries and keys stay for backward as they are before positions turn them,
                          too */
    bool copies;     /**< gradients of a micro-batch are in the type of the arithmetic until all are
                          added to those that are exchanged */
    bool early_stop; /**< what is computed again ends once backward has all that it reads */
    bool whole;      /**< with a shard of the optimizer each, ranks sum whole gradients */
    int64_t ahead;   /**< values that ranks which share layers sum, held at most because the host is
                          ahead of the device */
    double busy; /**< FLOP for each of them from which on the device takes longer than the host */
    double reserve; /**< what the allocator holds beyond the values, over these */
};

/** What a layer is to attention, for devices that compute it. */
enum attends {
    ATTENDS_NOT,
    ATTENDS_SCORES,  /**< product of queries and keys, divided by the root of a head's features */
    ATTENDS_BEFORE,  /**< softmax over the keys up to the query's own */
    ATTENDS_ALL,     /**< softmax over all keys */
    ATTENDS_CONTEXT, /**< product of these weights and values */
    ATTENDS_ROTARY,  /**< queries or keys, turned by their positions; `inner` are a head's features
                      */
    ATTENDS_TOKEN,   /**< a trained position before those of its input */
    ATTENDS_FIRST,   /**< the first position alone */
    ATTENDS_SCALE,   /**< beside attention: each channel times a trained factor */
};

/** Which gate of one value, for devices that compute it: x / (1 + exp(-x)), its second factor, and
 * the same with min(max(x + 3, 0), 6) / 6 in its place (Howard et al. 2019). */
enum gate_kind { GATE_UNKNOWN, GATE_SILU, GATE_SIGMOID, GATE_HARD_SWISH, GATE_HARD_SIGMOID };

/** Which part of a training step. */
enum pass { PASS_FORWARD, PASS_BACKWARD_DATA, PASS_BACKWARD_FILTER, PASS_COUNT };

/** (channels, height, width). */
struct shape {
    int32_t channels, height, width;
};

enum { LAYER_INPUTS = 64, LAYER_NAME = 72 };

/** A matrix product of @rows x @terms by @terms x @columns. */
struct matrix_product {
    int64_t rows, columns, terms;
    int64_t aligned; /**< elements: the largest power of two that divides the length of each row in
                          memory */
    int64_t each;    /**< positions of one expert, if it is a product of several; else 0 */
};

/** How a router chooses: of @groups of equally many experts it uses some, and experts of these. */
struct router {
    int32_t experts, active;       /**< of a layer, and those of a position */
    int32_t groups, active_groups; /**< 0: one */
};

/** One layer.  Its value is its output after the residual add and the ReLU that it carries. */
struct layer {
    enum layer_op op;
    char name[LAYER_NAME];       /**< torchvision's name: "layer1.0.conv1" */
    char block[16];              /**< such as "layer1.0", "stem", "body", "head" */
    char role[8];                /**< "c1" "c2" "c3" "ds" "stem" "body" "head" */
    int32_t input[LAYER_INPUTS]; /**< the layers whose values it reads; -1: the images.  What a
                                      batch norm adds before its ReLU is its second and may come
                                      later in the list, as a projection does */
    int32_t input_count;
    struct shape in, out;            /**< in: the value of the first input, or another view of it */
    int32_t kernel, stride, padding; /**< 1 / 1 / 0 for linear layers, 0 / 1 / 0 for batch norm */
    int32_t kernel_width;            /**< of a window that is no square; 0: as its height, kernel */
    bool bias;                       /**< convolutions and linear layers */
    bool relu;                       /**< a ReLU follows, fused here */
    bool capped;                     /**< and stops at 6 */
    int32_t groups;                  /**< of a convolution; 0: one */
    int64_t inner;                   /**< of a product: terms of each sum; ATTENDS_ROTARY */
    struct router router;            /**< on AXIS_EXPERT */
    enum attends attends;            /**< of products, softmaxes and others */
    enum gate_kind gate;             /**< of LAYER_SILU */
    int64_t rows;                    /**< of an embedding's table; of positions that are added */
    int32_t experts;                 /**< sets of weights, one of which each position uses; 0: 1 */
    int64_t constants;               /**< parameters of an add or of another kind */
    int32_t weights_of;              /**< 1 + the earlier layer whose weights it uses, and whose
                                          bias if both have one; 0: they are its own */
    int64_t flops;                   /**< forward, per image: of another kind; of a matrix product
                                          what attention's kernel computes of it, 0: all */
    int64_t elements;                /**< that another kind reads and writes; 0: inputs, output */
    int64_t parameters;              /**< its own weights and biases together */
    bool frozen;                     /**< its weights are not trained, and no parameters here */
    int32_t again;                   /**< enum recompute: the word with which it runs again, beside
                                          those for whole parts */
    bool exchanged;                  /**< no kernel: ranks exchange its value */
    enum axis axis; /**< on which they share the layers around it, sequences or experts */
    enum collective_op exchange[2]; /**< forward, and backward of its gradient;
                                         COLLECTIVE_OP_COUNT: nothing */

    /* What follows from the inputs of all layers; kept by model_add() and model_add_residual(). */
    bool residual;   /**< a residual is added before the ReLU, fused here */
    bool first;      /**< needs no gradient with respect to its input: the images, or a value that
                          is still */
    bool still;      /**< neither its own parameters nor any before it are trained: no backward */
    bool fork;       /**< a later layer reads the same value: two gradients are added */
    bool projection; /**< a batch norm whose value is only added by another, or the layer before it
                      */
    bool apart;      /**< a batch norm that reads no convolution, or that a layer reads which
                              cannot apply it: never merged into another kernel */
    int32_t readers; /**< how many layers read its value */
    int32_t reader;  /**< the first of them in the order they were added, or -1 */
    int32_t last_reader; /**< the last in the list, or -1 */
};

/** One parameter tensor, in torchvision's order. */
struct tensor {
    char name[LAYER_NAME + 16]; /**< "layer1.0.conv1.weight" */
    int32_t layer;              /**< which layer it belongs to */
    int64_t elements;
};

/** A network.  Read freely; filled through model_add(). */
struct model {
    char name[32];
    int32_t image; /**< height and width of the input [pixels] */
    int32_t classes;
    struct shape input; /**< of an image */
    struct layer *layer;
    struct tensor *tensor;
    int32_t layer_count, tensor_count;
};

/** An empty network; release with model_free(). */
struct model *model_new(const char *name, int32_t image, int32_t classes);

void model_free(struct model *model);

/** Append a layer that names its inputs, which exist; compute its shapes and parameter count,
 * append its parameter tensors.
 * The caller sets out.channels of convolutions, linear layers and embeddings, out.height and
 * out.width of average pools, which are adaptive: their windows follow from the two shapes; and out
 * of matrix products.  It may set `in` to another view of the first input, and all of out, as where
 * a window has gaps or another padding on each side.
 * @return its index.  Asserts shapes that fit (our mistake, not the user's). */
int32_t model_add(struct model *model, struct layer layer);

/** Let batch norm @index add the value of layer @added, of the same shape, before its ReLU. */
void model_add_residual(struct model *model, int32_t index, int32_t added);

/** The output of @layer by its kind, input and window, or as far as it says it. */
struct shape model_output(const struct model *model, const struct layer *layer);

/** The shape of the value of layer @index, or of the images (-1). */
struct shape model_shape(const struct model *model, int32_t index);

/** Whether its input has rows and columns; that of others is a sequence, or a vector. */
bool model_reads_pictures(const struct model *model);

/** What messages call @count of its inputs: "image", "images", "sample" or "samples". */
const char *model_inputs(const struct model *model, int64_t count);

/** Whether most of its multiply-adds are of convolutions whose speed depends on the order of
 * channels and pixels.  Those of one position of a sequence are linear layers, and a transformer
 * that begins with a convolution of pictures remains one. */
bool model_has_layout(const struct model *model);

/** Sum of parameters, which are trained. */
int64_t model_parameters(const struct model *model);

/** Whether layers have experts, of which each position uses some. */
bool model_has_experts(const struct model *model);

/** Weights of layers that are frozen. */
int64_t model_frozen(const struct model *model);

/** Weights of its own or another's that @layer computes a value with, no bias: of one expert. */
int64_t layer_weights(const struct layer *layer);

/** Multiply-adds of one layer, forward, per image. */
int64_t layer_multiply_adds(const struct layer *layer);

/** Whether it multiplies what precision.products says: linear layers of a transformer's blocks. */
bool layer_is_narrow(const struct layer *layer);

/** The kind of its kernels, also of what follows a matrix product in a layer. */
enum kernel_kind layer_kernel(const struct layer *layer);

/** Whether devices time its two backward passes apart: convolutions of all kinds, linear layers. */
bool layer_has_arithmetic(const struct layer *layer);

/** Whether it is a matrix at each position of a sequence. */
bool layer_is_dense(const struct layer *layer);

/** Whether @model has kinds beyond residual networks, so that several layers add to a gradient. */
bool model_is_general(const struct model *model);

/** Whether @model has what CPUs alone train: more kinds, groups of channels, a ReLU that stops at
 * 6, or a sum without a ReLU behind it. */
bool model_needs_cpu(const struct model *model);

/** Where the ReLU of @layer stops: 6, INFINITY, or 0 without one. */
float layer_top(const struct layer *layer);

/** Whether @layer computes something in @pass: without a gradient nothing is backward. */
bool layer_has_pass(const struct layer *layer, enum pass pass);

/** FLOP of one layer and pass, per image; 0 for layers without matrix arithmetic.  A matrix product
 * has both of its gradients, and another kind twice its FLOP, in PASS_BACKWARD_DATA. */
int64_t layer_flops(const struct layer *layer, enum pass pass);

/** Of what copies of a position for all its experts are, how much leaves if each of @nodes with as
 * many of them gets one: routers choose all groups, and in these all experts, with the same chance.
 * Groups of a node that are not whole have equal parts there. */
double router_part(const struct router *router, int32_t nodes);

/** What it multiplies in @pass for @batch images; terms 0: it is not of KERNEL_GEMM.  Both
 * gradients of a matrix product are as its forward. */
struct matrix_product layer_product(const struct layer *layer, enum pass pass, int64_t batch);

/** Sum of layer_flops(). */
int64_t model_flops(const struct model *model, enum pass pass);

/** Memory traffic of layer @index in @pass, per image, for activations of @element_size bytes
 * [bytes].  Weights are not counted (once per batch, see layer_weight_bytes).
 *
 * Each kernel reads each of its inputs and writes each of its outputs once; caches are ignored.
 * The backward of all kinds but convolutions and linear layers is all PASS_BACKWARD_DATA; that of a
 * ReLU after those is in their PASS_BACKWARD_FILTER.  Kinds for predictions only are kernels of
 * their own at every fusion.
 * core/schedule/model_bytes.c says to which layer the traffic of a kernel for two layers is
 * assigned. */
int64_t model_bytes(const struct model *model, int32_t index, enum pass pass, enum fusion fusion,
                    int32_t element_size);

/** Parameters that the layer computes with times @element_size [bytes]: weight traffic once per
 * batch and pass. */
int64_t layer_weight_bytes(const struct layer *layer, int32_t element_size);

/** Kernels the layer launches in @pass at @fusion: 1 for the matrix arithmetic or the pooling, plus
 * one for each pointwise operation, reduction or coefficient update that is not merged into it. */
int32_t layer_kernels(const struct layer *layer, enum pass pass, enum fusion fusion);

/** Whether layer @index is part of attention: from a product over a softmax to the next one. */
bool model_attends(const struct model *model, int32_t index);

/** Memory traffic as of model_bytes() of a layer that @by merges: 0 or more [bytes]; -1: it is not
 * merged.
 *
 * Attention in one kernel reads queries, keys and values and writes its result; backward moves
 * twice that.  Its FLOP remain those of the products: what it computes again or leaves out is part
 * of its rate.  Behind another kernel an activation keeps its input for backward, dropout its mask,
 * and an add reads what is added.  A pass in which the layer has nothing to do has no bytes. */
int64_t model_merged_bytes(const struct model *model, int32_t index, enum pass pass,
                           struct merges by, int32_t element_size);

/** The fusion of @layer where that of the software is @fusion: with @by.epilogues the ReLU of a
 * convolution or linear layer is part of its kernel, as are bias and adds there, and a batch norm
 * that is not trained is one kernel with its ReLU and add. */
enum fusion model_fusion(const struct layer *layer, enum fusion fusion, struct merges by);

/** Write the properties that decide the layer's time per image to @text (@size bytes), such as
 * "convolution 3x3/1+1 16x32x32-16x32x32 fork"; layers with equal texts cost the same. */
void layer_describe(const struct layer *layer, char *text, size_t size);

/** Input and output activations [elements per image]. */
int64_t shape_elements(struct shape shape);
