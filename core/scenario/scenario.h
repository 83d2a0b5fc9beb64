#pragma once

/** @file
 * A training job as the user describes it: one YAML (or JSON) file.
 *
 * scenario_table drives reading, --help, the JSON Schema, `check --explain` and the manual page.
 * All numbers are SI.
 */

#include "core/base/dtype.h"
#include "core/collective/collective.h"
#include "core/config/field.h"
#include "core/config/unknown.h"
#include "core/convergence/convergence.h"
#include "core/scenario/source.h"

enum {
    SCENARIO_DEVICE_LIMIT = 1000000, /**< devices that may take part */
    SCENARIO_IMAGE_LIMIT = 4096,     /**< width of an image [pixels] */
    SCENARIO_CLASS_LIMIT = 1000000,  /**< classes */
    SCENARIO_PHASE_LIMIT = 1000,     /**< phases */
};

/** The range of a loss scale, and the largest whole number that all programs read exactly. */
#define SCENARIO_LOSS_SCALE_LEAST 1e-9
#define SCENARIO_LOSS_SCALE_MOST  0x1p40
#define SCENARIO_NUMBER_LIMIT     0x1p53

/** When gradients are exchanged. */
enum overlap {
    OVERLAP_NONE,     /**< after the whole backward pass */
    OVERLAP_BACKWARD, /**< each bucket as soon as it is full */
    OVERLAP_COUNT
};

/** The words of `parallel.recompute`: what runs forward again before its backward. */
enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_NORMS,
    RECOMPUTE_LATENT,
    RECOMPUTE_SELECTIVE,
    RECOMPUTE_FULL,
    RECOMPUTE_COUNT
};

/** "none", "norms", "latent", "selective", "full". */
extern const char *const recompute_names[];

/** The words of `parallel.context_by`: how ranks that share a sequence get all keys and values. */
enum context_by { CONTEXT_RING, CONTEXT_ALL_GATHER };
/** The words of `parallel.expert_by`: what a position sends to the ranks of its experts. */
enum expert_by { EXPERT_COPIES, EXPERT_SLOTS, EXPERT_NODES };

/** The words of `parallel.schedule`: in which order a stage runs micro-batches. */
enum pipeline_order { PIPELINE_1F1B, PIPELINE_GPIPE, PIPELINE_ORDER_COUNT };

/** The words of `parallel.balance`: of what stages have equally much. */
enum balance { BALANCE_BLOCKS, BALANCE_FLOP, BALANCE_GREEDY, BALANCE_COUNT };

/** The words of `training.phases[].round`: of a global batch that devices cannot share evenly. */
enum rounding { ROUND_EXACT, ROUND_DOWN, ROUND_UP, ROUND_COUNT };

/** A stretch of training with one batch size (batch-size control): one of the two is given. */
struct scenario_phase {
    double epochs;            /**< 0: not given, as training.target decides */
    double samples, tokens;   /**< instead of epochs; 0: not given */
    int64_t batch_per_device; /**< images per device and pass; 0: global_batch is given */
    int64_t global_batch;     /**< images of all devices per step; 0: batch_per_device is given */
    int32_t round;            /**< enum rounding, of global_batch */
    int64_t nodes;            /**< that take part; 0: those of the cluster */
    int64_t micro_batch;      /**< as training.micro_batch; 0: that decides */
};

/** From an epoch on, the learning rate is this much of the start's. */
struct scenario_milestone {
    double epoch, factor;
};

/** The words of `training.learning_rate.decay`. */
enum decay { DECAY_CONSTANT, DECAY_STEP, DECAY_POLYNOMIAL, DECAY_COSINE, DECAY_COUNT };

/** The words of `training.batch_norm.statistics`: what evaluation normalises with. */
enum bn_statistics {
    BN_STATISTICS_RUNNING, /**< moving averages, averaged over the ranks */
    BN_STATISTICS_LAST,    /**< those of the last batch, averaged over the ranks */
    BN_STATISTICS_COUNT
};

/** What may run in the columns of torus2d. */
enum column_algorithm {
    COLUMN_RING,
    COLUMN_HALVING_DOUBLING,
    COLUMN_HALVING_DOUBLING_FAR,
    COLUMN_DOUBLE_TREE,
    COLUMN_NCCL,
    COLUMN_ALGORITHM_COUNT
};

/** The words of `training.optimizer.name`. */
enum optimizer_kind {
    OPTIMIZER_SGD,
    OPTIMIZER_LARS, /**< the last with one moment, and that GPUs train with */
    OPTIMIZER_ADAMW,
    OPTIMIZER_LAMB, /**< the last that devices train with */
    OPTIMIZER_ADAFACTOR,
    OPTIMIZER_RMSPROP,
    OPTIMIZER_COUNT
};

/** They, NULL-terminated. */
extern const char *const optimizer_names[];

/** The words of model.gated and others; the first of all such words: not given. */
enum transformer_choice { CHOICE_AUTO, CHOICE_FALSE, CHOICE_TRUE, CHOICE_CLAMPED };
/** The words of model.norm. */
enum transformer_norm { NORM_AUTO, NORM_LAYER, NORM_POST_LAYER, NORM_RMS, NORM_RMS_BOTH };
/** The words of model.position. */
enum transformer_position { POSITION_AUTO, POSITION_LEARNED, POSITION_ROTARY, POSITION_NONE };
/** The words of model.head. */
enum transformer_head { HEAD_AUTO, HEAD_NEXT_TOKEN, HEAD_MASKED_TOKEN, HEAD_SPAN, HEAD_CLASSES };

/** The shape of a transformer.  0: not given, or as a network of another name has it. */
struct transformer {
    int64_t sequence;   /**< positions of a sample */
    int64_t document;   /**< of a part of a sample, beyond which nothing is attended to; 0: none */
    int64_t window;     /**< that one attends to at most, with itself; 0: all before it */
    int64_t full_every; /**< of so many layers the last has no window; 0: all have it */
    int64_t layers, hidden, heads, kv_heads, ffn;
    int64_t experts, active; /**< feed-forward networks of a layer, and those a position uses */
    int64_t expert_groups, active_groups; /**< alike, and those that a position uses; 0: one */
    int64_t expert_ffn, shared; /**< features inside of each; those that all positions use beside */
    int64_t dense_layers;       /**< that come first and have no experts */
    int64_t head_size;          /**< features of a head */
    int64_t kv_rank, query_rank; /**< features of latent keys and values, and queries; 0: none */
    int64_t rotary_size; /**< of a head's queries and keys, beside `head_size`: what turns by
                            position */
    int64_t further;     /**< blocks that each predict a token further than the next */
    int64_t lora;        /**< rank of adapters, which alone are trained; 0: none */
    int64_t vocab;
    int64_t positions, segments; /**< rows of the learned tables */
    int64_t patch;               /**< of a picture [pixels]; 0: it reads tokens */
    int64_t tensor;   /**< ranks that share each layer, of one of which the network is; 0: 1 */
    int64_t context;  /**< ranks that share each sequence, of one of which it is; 0: 1 */
    int64_t expert;   /**< ranks that share the experts of a layer, of one of which it is; 0: 1 */
    bool whole;       /**< an expert is of one rank, not of all that share other layers */
    double imbalance; /**< positions of the busiest of them over the mean; 0: 1 */
    bool sorted;      /**< what arrives is in the order of experts */
    bool pads;        /**< and is padded for narrow products */
    bool apart;       /**< between shared layers each has a part of the positions */
    double predicted; /**< share of the positions whose token is predicted */
    int32_t gated, tied, bias, dropout; /**< enum transformer_choice */
    int32_t norm, position, head;
};

/** Which nodes of a platform a job gets. */
enum cluster_placement { CLUSTER_AS_PLATFORM, CLUSTER_CONTIGUOUS, CLUSTER_SCATTERED };

/** See docs/man/foretrain-scenario.5 for what each key means. */
struct scenario {
    int64_t version;
    struct {
        char *network; /**< "resnet50", "resnet50_v1", ... */
        int64_t image; /**< [pixels] */
        int64_t classes;
        struct transformer transformer;
        int64_t tokens;                     /**< mean of a sample, without padding; 0: all */
        bool padded;                        /**< padding is computed */
        int32_t compute, gradients, master; /**< enum dtype */
        int32_t products; /**< enum products: what linear layers inside of blocks multiply */
    } model;
    struct {
        char *platform; /**< a name in platforms/ or a path */
        int64_t nodes;
        int64_t devices_per_node; /**< 0: all of the platform's */
        char
            *software; /**< a name in platforms/software or a path; NULL: as the device file says */
        int32_t placement;   /**< enum cluster_placement */
        double speed;        /**< of computing, relative to what both say */
        double speed_spread; /**< its standard deviation; 0: steps of this job were not measured */
    } cluster;
    struct {
        char *dataset;             /**< "imagenet" or NULL when counts are given */
        int64_t train_images;      /**< resolved */
        int64_t validation_images; /**< resolved */
        struct field_list phase;   /**< struct scenario_phase */
        int32_t optimizer;         /**< enum optimizer_kind */
        double momentum, beta2, weight_decay, label_smoothing, warmup_epochs;
        double evaluate_every;   /**< [epochs]; 0: never */
        double target;           /**< top-1 accuracy that ends the last phase, a fraction; 0: its
                                      epochs do */
        char *recipe;            /**< one of convergence_recipes, or NULL */
        struct field_list point; /**< struct convergence_point, instead of a recipe */
        bool extrapolate;        /**< beyond the batches of the recipe */
        double startup;          /**< [s] before the first step runs at full speed */
        int64_t norm_group;      /**< devices of a node that share batch norm's statistics */
        int64_t micro_batch;     /**< images that pass through the network at once; 0: all */
        int64_t accumulate;      /**< passes of batch_per_device images in a step; 0: one */
        bool nesterov;
        double clip;  /**< global norm of gradients at most; 0: any */
        double trust; /**< LARS: share of |w| / |g| that a layer's rate is multiplied by */
        struct {
            double base;
            int64_t base_batch;          /**< base is for this global batch; 0: for every one */
            int32_t decay;               /**< enum decay */
            double power, final;         /**< of polynomial decay; rate at the end */
            struct field_list milestone; /**< struct scenario_milestone, for DECAY_STEP */
            int64_t cycles;
        } learning_rate;
        struct {
            double epochs; /**< at the end of each cycle; 0: none */
            double learning_rate, power, weight_decay;
            bool augment;
        } collapse;
        struct {
            double momentum, epsilon; /**< weight of the newest batch in the moving average */
            int32_t statistics;       /**< enum bn_statistics */
        } batch_norm;
        struct {
            double initial;
            bool dynamic;
            int64_t interval; /**< steps without overflow after which it doubles */
        } loss_scale;
        struct {
            int32_t source; /**< enum dataset_source */
            char *path, *validation_path;
            bool augment, strict;
        } data;
        struct {
            double every; /**< [epochs]; 0: only at the end */
            int64_t keep;
            double cost;      /**< [s] of one, while training stands still; 0: not given */
            double bandwidth; /**< at which one is written [bytes/s]; 0: not given */
            double restart;   /**< [s] from a failure until lost work begins again */
        } checkpoint;
    } training;
    struct {
        int64_t tensor;        /**< ranks that share each layer; 0: none does */
        bool sequence;         /**< between shared layers each has a part of the positions */
        int64_t sharding;      /**< ZeRO's stage, 1 to 3; 0: none */
        int32_t recompute;     /**< enum recompute */
        int64_t pipeline;      /**< stages of the network, each of other ranks; 0: one */
        int64_t chunks;        /**< parts of the network that each stage has; 0: one */
        int64_t blocks;        /**< of each part but the last, which has the rest; 0: even */
        int32_t schedule;      /**< enum pipeline_order */
        int32_t balance;       /**< enum balance */
        int64_t context;       /**< ranks that share each sequence; 0: none do */
        int32_t context_by;    /**< enum context_by */
        int32_t expert_by;     /**< enum expert_by */
        int64_t expert;        /**< ranks that share the experts of a layer; 0: none do */
        int64_t expert_tensor; /**< ranks that share each expert; 0: as many as other layers */
        double imbalance;      /**< positions of the busiest of them over the mean */
        bool expert_overlap;   /**< exchanges run beside another micro-batch */
    } parallel;
    struct {
        int32_t algorithm;        /**< enum algorithm */
        int32_t column_algorithm; /**< enum column_algorithm */
        int32_t channels;         /**< a word of channel_names */
        double chunk;             /**< [bytes] of a tree; 0: all at once */
        int64_t columns, rows;    /**< grid; 0: chosen */
        double bucket;            /**< [bytes]; 0: one bucket */
        int32_t overlap;          /**< enum overlap */
        int64_t ctas;             /**< most thread blocks of NCCL; 0: its choice */
    } allreduce;
    struct {
        int64_t nodes;            /**< scaling efficiency is relative to this */
        int64_t devices_per_node; /**< 0: as the cluster */
    } baseline;
    struct {
        double compute_cv;         /**< coefficient of variation of each compute step */
        double straggler_fraction; /**< of ranks that are slow */
        double straggler_slowdown; /**< how much slower: 0.5 = takes 1.5 times as long */
    } noise;
    int64_t seed;
    struct {
        int64_t workers;    /**< input threads per device; 0: input costs nothing */
        double rate;        /**< [images/s] decoded per worker */
        int64_t prefetch;   /**< batches kept ready */
        double storage;     /**< that all nodes share [bytes/s]; 0: no limit */
        double image_bytes; /**< of an image there */
    } input;
    struct {
        double step;    /**< [s]; 0: not given */
        double startup; /**< [s] of a run beside its epochs and evaluations */
        char *software; /**< that ran: a name, which need not have a profile; NULL: not given */
        bool doubtful;  /**< other runs are better known */
    } measured;         /**< of a run of this job */
    char sha256[65];    /**< of the file's text and the --set assignments, hexadecimal */
    char *path;         /**< as given */
    struct document *document; /**< where each value stands, for messages; owned */
};

/** Its words, NULL-terminated. */
extern const char *const column_algorithm_names[];

/** What runs in the columns, as the collective it is. */
enum algorithm column_algorithm(enum column_algorithm word);

/** The one table. */
extern const struct field_table scenario_table;

/** Whether @assignment changes a scenario; those of keys "platform." and "device." change the files
 * that it names (platform_read_changed()). */
bool scenario_takes(const char *assignment);

/** Apply such an assignment to the @document of a scenario, as yaml_set(). */
int scenario_assign(struct document *document, const char *assignment, struct err *err);

/** What a file is that describes no job. */
enum scenario_other {
    OTHER_NONE,
    OTHER_PLATFORM,
    OTHER_DEVICE,
    OTHER_SOFTWARE,
    OTHER_NETWORK,
    OTHER_PRICES
};

/** "job", "platform", ... in the order of enum scenario_other. */
extern const char *const scenario_other_names[];

/** What a file is, by the keys of its @root; OTHER_NONE: a job, or nothing we know. */
enum scenario_other scenario_other(const struct node *root);

/** Read @path (of @files, or NULL: on disk), apply those of @set ("key=value", count) that it
 * takes, give unknown inputs a value and append them to @unknowns (NULL: refuse them), resolve the
 * dataset, check values against each other (impossible grid, value without effect, ...).  All
 * faults are reported at once.
 * @return 0, or -1; on success release with scenario_release(). */
int scenario_read(struct scenario *scenario, const struct files *files, const char *path,
                  const char *const *set, int32_t set_count, struct unknowns *unknowns,
                  struct err *err);

/** scenario_read() of the text of a file called @name. */
int scenario_read_text(struct scenario *scenario, const char *name, const char *text,
                       struct err *err);

/** Append every resolved value with its origin, one line each, then the unknown inputs, and the
 * assignments that change platform and device. */
int scenario_explain(struct text *out, const char *path, const char *const *set, int32_t set_count,
                     struct err *err);

/** Ranks that share each layer; at least 1. */
int64_t scenario_tensor(const struct scenario *scenario);

/** Ranks of a stage that have all experts of a layer together; at least 1. */
int64_t scenario_expert_ranks(const struct scenario *scenario);

/** Ranks that have one batch together, since they share its layers or sequences or have a stage
 * each; at least 1. */
int64_t scenario_parts(const struct scenario *scenario);

/** Let a sample have the @tokens of its network, which give samples of phases in tokens. */
void scenario_set_tokens(struct scenario *scenario, int64_t tokens);

/** What messages call the file: @scenario->path, or "stdin". */
const char *scenario_name(const struct scenario *scenario);

/** Whether the file or an assignment says @key ("noise.compute_cv"), or its default applied. */
bool scenario_is_given(const struct scenario *scenario, const char *key);

/** Whether an assignment (--set) says @key. */
bool scenario_is_assigned(const struct scenario *scenario, const char *key);

/** A path that stands at @key ("cluster.platform") as one that can be opened: beside the file that
 * says it, if something is there, else as it is.  The caller frees it. */
char *scenario_path_at(const struct scenario *scenario, const char *key, const char *path);

/** Add the messages of @found, located at the value of @key ("cluster.platform"), or as they are
 * when they have places or @key is NULL; keeps the exit code and releases @found.  @return -1. */
int scenario_blame(const struct scenario *scenario, const char *key, struct err *found,
                   struct err *err);

/** The curve of epochs to the target of @scenario: of its recipe, or of its own points. */
struct convergence scenario_convergence(const struct scenario *scenario);

void scenario_release(struct scenario *scenario);

/** Check the values of @scenario, read from @root, against each other; faults are located where
 * the value stands.  @return 0, or -1 with all faults. */
int scenario_check(const struct scenario *scenario, const struct node *root, struct err *err);
