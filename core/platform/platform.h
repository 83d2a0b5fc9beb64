#pragma once

/** @file
 * A cluster and its devices as described in platforms/: every number with unit, source and kind.
 *
 * Three shapes: `cluster` (nodes with an inner graph of devices, switches, CPUs and NICs; racks;
 * tiers of uplinks), `torus` (each rank linked to its four or six neighbours on the logical grid)
 * and `ring` (each rank linked to the next in rank order).  torus and ring take any size: the grid
 * of the job is their shape.
 */

#include "core/base/answer.h"
#include "core/config/field.h"
#include "core/config/unknown.h"
#include "core/network/fabric.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** What joins the devices of a node, or of the whole machine. */
enum device_links {
    LINKS_NONE, /**< their slots alone */
    LINKS_NVLINK,
    LINKS_XGMI,
    LINKS_ROCE,   /**< ports of Ethernet on the device */
    LINKS_SOCKET, /**< the bus between sockets */
    LINKS_NEURON, /**< a torus inside a node */
    LINKS_TORUS2D,
    LINKS_TORUS3D,
    LINKS_COUNT
};

/** "none", "nvlink", ..., NULL-terminated. */
extern const char *const device_links_names[];

/** What a network is. */
enum fabric_kind {
    FABRIC_UNKNOWN,
    FABRIC_INFINIBAND,
    FABRIC_ROCE,
    FABRIC_EFA,
    FABRIC_SLINGSHOT,
    FABRIC_OMNI_PATH,
    FABRIC_TCP,
    FABRIC_COUNT
};

/** "unknown", "infiniband", ..., NULL-terminated. */
extern const char *const fabric_names[];

/** What a PCI Express slot of 16 lanes carries each way [bytes/s], by its generation from 3 on.
 * Source: PCI Express 3.0: 16 lanes of 8 GT/s, 128b/130b; each generation doubles it. */
double device_slot_bandwidth(int64_t generation);

/** What a kind of kernels reaches, over math_efficiency and memory_efficiency. */
struct kind_rate {
    double math; /**< of the sustained peak; 0: all of the data sheet's */
    double memory;
};

/** How well a kind is known. */
struct kind_doubt {
    double spread; /**< standard deviation of the logarithm of its rates */
    double share;  /**< part of the roofline's time in the runs that the efficiencies are from */
};

/** One kind of device with the software that drives it.  Filled from platforms/devices/. */
struct device {
    char *name;
    char *description;
    struct quantity peak[DTYPE_COUNT]; /**< matrix arithmetic on inputs of that type [FLOP/s] */
    struct quantity peak_tf32;         /**< of fp32 that is rounded to tf32; optional [FLOP/s] */
    struct quantity peak_products[PRODUCTS_COUNT]; /**< on fp8 and fp4; optional [FLOP/s] */
    struct quantity sustained;          /**< fraction of the peak that its best matrix product
                                             reaches: the ceiling of kinds of kernels; optional */
    struct quantity sustained_fp8;      /**< the same on fp8 and fp4; as of others if not given */
    struct quantity memory_bandwidth;   /**< [bytes/s] */
    struct quantity memory;             /**< [bytes] */
    struct quantity math_efficiency;    /**< fraction of the peak a large kernel reaches */
    struct quantity memory_efficiency;  /**< fraction of the memory bandwidth it reaches */
    struct quantity kernel_overhead;    /**< [s] added per kernel: launch, ramp-up, tail */
    struct quantity iteration_overhead; /**< [s] from the last step of an iteration to the first of
                                             the next; optional */
    /** Extra time of compute while a collective is in flight, and of a collective while the device
     * computes, as fractions up to 1; optional. */
    struct quantity compute_slowdown, communication_slowdown;
    struct quantity collective_launch; /**< [s] of the host, before each collective; optional */
    struct quantity launch;            /**< [s] of the host for each kernel, of which a step takes
                                            at least the sum; optional */
    struct quantity experts_launch;    /**< the same in networks with experts; optional */
    struct quantity jitter;            /**< coefficient of variation of its step time; optional */
    int64_t compute_capability;        /**< of CUDA: 10 * major + minor; 0: unknown or no CUDA */
    int64_t multiprocessors;           /**< that a matrix product keeps busy if it has as many
                                            tiles; 0: not given */
    int64_t pcie;                      /**< generation of its slot of 16 lanes; 0: not given */
    struct {
        int32_t kind;              /**< enum device_links */
        bool mesh;                 /**< each device has a link to each other one of its node */
        struct quantity bandwidth; /**< one way, of one device to all others together; in a mesh of
                                        the link to one of them [bytes/s] */
    } links;
    int32_t fusion;       /**< enum fusion of the software */
    int32_t small_fusion; /**< the same where a device has few images */
    int64_t small_batch;  /**< up to this number of images; 0: never */
    struct merges merges; /**< of the same */
    double memory_sd;     /**< of the same: standard deviation of log memory in use; 0: unknown */
    bool rated;           /**< the software knows kinds of kernels: */
    struct kind_rate rate[DTYPE_COUNT][KERNEL_COUNT];
    struct kind_doubt doubt[KERNEL_COUNT];
    double other_networks;      /**< standard deviation of the logarithm from network to network, in
                                     kinds of kernels or shapes that none of the measured has */
    double whole_nodes;         /**< the same of several devices about one */
    double with_experts;        /**< the same of this network, which has experts */
    bool tf32[KERNEL_COUNT];    /**< it computes in tf32 what is said to be fp32 */
    struct field_list classes;  /**< struct device_class of core/platform/device_table.h */
    struct field_list profiles; /**< struct device_profile: what the classes were fitted to */
    struct {
        char *source;            /**< origin, date and command of the measurement; NULL: not
                                      measured */
        int64_t threads;         /**< of the measured rank; 0: not given */
        struct field_list steps; /**< struct device_row of core/platform/device_table.h */
    } measured;
};

/** What a platform looks like. */
enum platform_kind { PLATFORM_CLUSTER, PLATFORM_TORUS, PLATFORM_RING, PLATFORM_KIND_COUNT };

/** "cluster", "torus", "ring", NULL-terminated. */
extern const char *const platform_kind_names[];

/** One kind of link: the numbers of one direction of one cable. */
struct link_record {
    char *name;                 /**< in lists; else NULL */
    struct quantity bandwidth;  /**< [bytes/s] */
    struct quantity efficiency; /**< fraction of the bandwidth that payload gets */
    struct quantity latency;    /**< [s] */
};

/** Cables of one kind inside a node. */
struct edge_record {
    char *link;                   /**< the name of a kind of link */
    struct field_list connect;    /**< char *: "gpu0-switch0" */
    struct field_list all_to_all; /**< char *: "gpu0" */
};

/** Groups of nodes with uplinks. */
struct tier_record {
    char *name;
    int64_t nodes;   /**< in one group */
    int64_t uplinks; /**< of one group */
    int64_t rails; /**< switches side by side in one group, of which each has a part of the uplinks
                        and the cards of one number */
    struct link_record uplink;
};

/** Which nodes of a cluster a job gets. */
enum node_choice { PLACEMENT_CONTIGUOUS, PLACEMENT_SCATTERED, PLACEMENT_COUNT };

/** "contiguous", "scattered", NULL-terminated. */
extern const char *const placement_names[];

/** A platform file, its device, and the inside of its nodes. */
struct platform {
    char *file; /**< where it was read from */
    int64_t version;
    char *name;
    char *description;
    int32_t kind; /**< enum platform_kind */
    char *device_name;
    int64_t nodes; /**< 0: any number */
    int64_t described_nodes,
        described_cards; /**< where there are more now, or fewer cards; else 0 */
    struct {
        int64_t count[VERTEX_KIND_COUNT];
        struct field_list links;    /**< struct link_record */
        struct field_list edges;    /**< struct edge_record */
        struct quantity contention; /**< see platform_contention() */
        int64_t cores;              /**< 0: one for each device */
        struct quantity mtbf;       /**< between failures that end a job [s]; 0: not given */
    } node;
    struct quantity network_mtbf; /**< of what all nodes share */
    int32_t fabric;               /**< enum fabric_kind */
    struct link_record nic;
    struct field_list tiers; /**< struct tier_record, from the bottom up */
    int32_t routing;         /**< enum routing */
    int64_t routing_seed;
    int32_t placement; /**< enum node_choice */
    int64_t placement_seed;
    struct {
        struct quantity inside, between; /**< [s] per message */
        struct quantity eager;           /**< [bytes] see struct fabric */
        int32_t payload; /**< type of gradients while the links were measured (enum dtype), whose
                              conversion their numbers include; -1: not given */
    } transport;
    struct link_record row, column, depth; /**< of a torus; depth 0: it has two dimensions */
    struct link_record ring;
    struct {
        int32_t intra;                   /**< enum nccl_intra */
        int64_t channels;                /**< 0: the file has no such section */
        struct quantity intra_bandwidth; /**< [bytes/s] */
        bool sharp;
        int64_t version;               /**< that was measured; 0: none */
        int64_t measured_nodes;        /**< 0: nothing was measured */
        struct field_list corrections; /**< struct nccl_correction */
    } nccl;
    struct device device;
    struct wiring wiring;
};

/** Read a platform by name (searched in the platform directory) or by path, with its device file.
 * A name may be written in any case, and cut short where only one begins so.
 * The directory is $FORETRAIN_DATADIR/platforms, else platforms/ found relative to the executable
 * (source tree or installed share/foretrain).
 * @return the platform, or NULL: not found (exit code 66, with those that are near), or located
 * messages about its content. */
struct platform *platform_read(const char *name, struct err *err);

/** @return 0, or -1 as platform_read(), which is all that is done. */
int platform_check_file(const char *path, struct err *err);

/** Read @files (NULL: none) with those of @set ("platform.network.nic.bandwidth=25GB/s",
 * "device.memory=80GB", count) that begin with "platform." or "device."; others are the scenario's.
 * A number that is set is assumed, with the source "--set".  Unknown inputs get a value and are
 * appended to @unknowns; NULL, and platform_read(): they are refused. */
struct platform *platform_read_changed(const struct files *files, const char *name,
                                       const char *const *set, int32_t count,
                                       struct unknowns *unknowns, struct err *err);

/** What @path is, if that is a regular file, not a name of the library.  Anything else, and a file
 * that cannot be read, is OTHER_NONE. */
enum scenario_other platform_file_kind(const char *path);

/** Read a platform from text, the content of a file called @name. */
struct platform *platform_read_text(const char *name, const char *text, struct err *err);

void platform_free(struct platform *platform);

/** platform_free() of @platform, for AUTORELEASE(platform). */
void platform_release(struct platform **platform);

/** Devices in a full node; 1 for torus and ring. */
int32_t platform_devices_per_node(const struct platform *platform);

/** How much longer a device computes while @devices_per_node of its node compute, as a fraction of
 * its time alone: proportional to the number of others, 0 for one.  If there are more of them than
 * cores, they also take turns. */
double platform_contention(const struct platform *platform, int32_t devices_per_node);

/** Devices of a node that compute at once, if all @devices_per_node take turns; 0: all do. */
int32_t platform_cores(const struct platform *platform, int32_t devices_per_node);

/** Let a job have @nodes nodes: those beyond the described ones continue the pattern of groups. */
void platform_continue(struct platform *platform, int64_t nodes);

/** Which nodes and network cards continue what the file describes, for people; the caller frees it.
 * NULL: none. */
char *platform_continued(const struct platform *platform);

/** platform_read() for @nodes nodes: those of a file continue its pattern, with a warning, those of
 * the library are what was built. */
struct platform *platform_read_for(const char *name, int64_t nodes, struct err *err);

/** How many uplinks a group of network.tiers[@tier] has; 0: there is no such tier. */
int64_t platform_uplinks(const struct platform *platform, int32_t tier);

/** The peak of kernels that compute in @dtype, in fp32 that of tf32 where the software rounds to
 * it, or on narrower @products [FLOP/s]. */
double device_peak(const struct device *device, enum dtype dtype, enum products products,
                   enum kernel_kind kernel);

/** Check that the device can compute on inputs of @dtype.
 * @return 0, or -1: it has no such arithmetic. */
int platform_check_dtype(const struct platform *platform, enum dtype dtype, struct err *err);

/** Check that the platform has what algorithm `nccl` needs: the section `nccl`, and the device's
 * compute capability.
 * @return 0, or -1: located messages that name what is missing. */
int platform_check_nccl(const struct platform *platform, struct err *err);

/** Whether the platform has @nodes nodes with @devices_per_node devices each; @grid matters for
 * torus and ring platforms only (columns * rows = ranks).
 * @return 0, or -1: more nodes or devices than there are, a grid that does not fit. */
int platform_check_extent(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                          struct grid grid, struct err *err);

/** How many a torus has; of a ring 1, of a cluster 0. */
int32_t platform_dimensions(const struct platform *platform);

/** The grid of @ranks ranks that nobody chose: nearest to a square, or on a torus of three
 * dimensions to a cube, whose columns are one side. */
struct grid platform_grid(const struct platform *platform, int32_t ranks);

/** Lay out this number of nodes and devices, with the checks of platform_check_extent().
 * @return the fabric, or NULL. */
struct fabric *platform_fabric(const struct platform *platform, int32_t nodes,
                               int32_t devices_per_node, struct grid grid, struct err *err);

/** Append the whole description for people: shape, tiers, every number with unit, source, kind. */
void platform_print(struct text *out, const struct platform *platform);

/** Append a device alone for people. */
void device_print(struct text *out, const struct device *device);

/** Append shape and numbers, in SI with kind and source, of a platform and its device as JSON. */
void platform_print_json(struct text *out, const struct platform *platform);

/** Append a device alone as JSON. */
void device_print_json(struct text *out, const struct device *device);

/** The columns of both. */
extern const struct answer_columns platform_columns, device_columns;

/** Call @visit for every quantity of platform and device; paths of the latter: "device.memory". */
void platform_each_quantity(const struct platform *platform,
                            void (*visit)(void *context, const struct quantity *, enum unit),
                            void *context);

/** Call @visit for every quantity of a device that was read alone: paths without that prefix. */
void device_each_quantity(const struct device *device,
                          void (*visit)(void *context, const struct quantity *, enum unit),
                          void *context);

/** A hash of every number of the platform, of its device with its software, and of the measured
 * steps: predictions from different numbers have different hashes. */
uint64_t platform_hash(const struct platform *platform);

/** Multiply each quantity of the platform and its device by @factor's result, to explore variants:
 * later fabrics use the new values. */
void platform_scale(struct platform *platform,
                    double (*factor)(void *context, const struct quantity *, enum unit),
                    void *context);

/** What all network cards of a node carry if messages pass through host memory, over what they
 * carry as they stand; 1 where that is no less, or there are as many cards as devices. */
double platform_staging(const struct platform *platform);

/** Whether @device has classes or measured steps, which are of one software. */
bool device_is_measured(const struct device *device);

/** The software profile of a language model that a device runs when nobody names one; NULL: kernels
 * are as the device file says, like those of CPUs here. */
const char *device_text_software(const struct device *device);

/** The fusion of the device's software for @batch images. */
enum fusion device_fusion(const struct device *device, int64_t batch);

/** Read a device of platforms/devices by name, or by path, into zeroed @device.
 * @return 0, or -1: not found (exit code 66, with those that are near), or located messages. */
int device_read(struct device *device, const char *name, struct err *err);

/** @return 0, or -1 as device_read(), which is all that is done. */
int device_check_file(const char *path, struct err *err);

void device_release(struct device *device);

/** The file of software profile @name (see core/platform/software.h); a path when it has a slash or
 * ends in .yaml.  The caller frees it.
 * @return the path, or NULL: no such name (exit code 66, with those that are near). */
char *platform_find_software(const char *name, struct err *err);

/** The rows of platform and device files, for `schema`. */
extern const struct field_table platform_table, device_table;

/** The first cluster or torus of the platform directory, in the order of names, whose nodes have
 * @devices devices of a kind that is @device or, if no device is called that, begins so, and @nics
 * network cards of @rate [bytes/s]; 0: any number, any rate.
 * @return its name, which the caller frees, or NULL. */
char *platform_like(const char *device, int32_t devices, int32_t nics, double rate);

/** The newest software profile of MLPerf Training, by name, that was fitted to runs on @device.
 * @return its name, which the caller frees, or NULL. */
char *platform_newest_software(const char *device);

/** Append a line for each file of @folder ("", "devices" or "software") of the platform directory:
 * name and description.  @return 0, or -1 with the message of platform_directory(). */
int platform_list(struct text *out, const char *folder, struct err *err);

/** The file of @name in @below the platform directory ("": itself), or @name if it has a slash or
 * ends in .yaml; @what is the noun for messages.  The caller frees it.
 * @return the path, or NULL: no such name (exit code 66, with those that are near). */
char *platform_find_file(const char *below, const char *what, const char *name, struct err *err);

/** The directory that holds platform files; the caller frees it.  NULL with a message when none
 * is found. */
char *platform_directory(struct err *err);

/* ---- between the sources of this room ---- */

/** Whether what leaves a group loads its uplinks evenly, and the job's nodes are in order. */
bool platform_is_even(const struct platform *platform);

/** NCCL's view of the platform laid out as @fabric; version 0: the file has no section `nccl`. */
struct nccl_world platform_nccl(const struct platform *platform, const struct fabric *fabric);

/** Check beyond single rows: missing or useless keys for the shape, names, cables, tiers.  Builds
 * platform->wiring, and completes transport.payload.  All faults are reported, each at its place
 * below @root.
 * @return 0, or -1. */
int platform_check(struct platform *platform, const struct node *root, struct err *err);

/** The file of platform @name; a path when it has a slash or ends in .yaml.  The caller frees it.
 * @return the path, or NULL: no such name (exit code 66, with those that are near). */
char *platform_find(const char *name, struct err *err);

/** The file of device @name, or a path relative to the platform's file.  The caller frees it.
 * @origin is where the platform names it, or NULL when none does.
 * @return the path, or NULL with a message at @origin that names those that are near. */
char *platform_find_device(const char *name, const struct origin *origin, struct err *err);
