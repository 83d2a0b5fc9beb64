#pragma once

/** @file
 * A software profile: the efficiency of one generation of training software on each device.
 *
 * The same device is faster under later libraries: they merge more operations, launch kernels at
 * lower cost and choose better ones.  A profile gives the share of the roofline that each device
 * reached and the extra cost of every kernel, as fitted by experiments/published_fit.py to runs on
 * one node.  platforms/software/ has one file per profile.
 */

#include "core/config/field.h"
#include "core/platform/platform.h"

/** One device under one software, with uncertainties.  Deviations are relative. */
struct software_efficiency {
    char *device;                    /**< a file of platforms/devices; NULL: all other devices */
    char *fusion;                    /**< a word of fusion_names; NULL: the device file's own */
    char *small_fusion;              /**< the same where a device has few images */
    int64_t small_batch;             /**< up to this number of images; 0: never */
    struct quantity efficiency;      /**< fraction of peak and of bandwidth that kernels reach */
    struct quantity kernel_overhead; /**< [s] added per kernel */
    double efficiency_sd;            /**< standard deviation of log efficiency */
    double overhead_sd;              /**< standard deviation of log kernel_overhead */
    double correlation;              /**< of the two, -1 ... 1 */
    double residual;                 /**< standard deviation of a run about the fit */
    int64_t rows;                    /**< number of fitted runs; 0: the numbers come from another
                                          fit */
};

/** What a kind of kernels reaches.  Deviations are relative. */
struct software_kind {
    int32_t kernel; /**< enum kernel_kind */
    int32_t dtype;  /**< 1 + enum dtype; 0: of all that have no entry of their own */
    char *device;   /**< pattern of names; NULL: all that have no entry of their own */
    double math;    /**< of the sustained peak, over the fit's efficiency; 0: the fit's of
                         the data sheet's peak */
    double memory;  /**< of the bandwidth, over the fit's efficiency */
    double spread;  /**< standard deviation of their logarithm from device to device and from
                         network to network */
    double share;   /**< part of the roofline's time in the runs of the fits */
};

/** A profile.  Read freely. */
struct software {
    int64_t version;
    char *name;
    char *description;
    int64_t nccl;            /**< 100 * major + minor; 0: does not use NCCL */
    int64_t groups;          /**< all-reduces per step that it makes at scale */
    int32_t overlap;         /**< enum overlap at scale */
    int32_t gradients;       /**< enum dtype in which they travel */
    struct quantity jitter;  /**< coefficient of variation of a device's step time */
    struct quantity experts; /**< what networks with them reach of the rates; path NULL: all */
    struct quantity startup; /**< [s] on one node before the first step runs at full speed */
    /** Those of the device, which they replace; path NULL: not given. */
    struct quantity compute_slowdown, communication_slowdown, collective_launch, launch,
        experts_launch;
    struct field_list kinds; /**< struct software_kind; empty: all kernels reach the same */
    char *kinds_source;      /**< from which networks they are known */
    double kinds_residual;   /**< relative deviation of a network, all of whose kinds are known */
    double kinds_node;       /**< the same of several devices of a node */
    struct merges merges;    /**< `passes` follows from `loss` */
    int32_t loss;            /**< enum software_loss */
    double memory_sd;        /**< standard deviation of log memory in use; 0: not known */
    int32_t tf32;            /**< enum tf32: what it computes in tf32 when told fp32 */
    char *without_layout;    /**< profile of networks without one: see model_has_layout(); NULL:
                                  this one */
    struct field_list fits;  /**< struct software_efficiency */
    struct software_efficiency rest; /**< for devices not in the list; its `device` is NULL */
};

/** How the loss of a classification is computed. */
enum software_loss { LOSS_FUSED, LOSS_UNFUSED };

/** What is computed in tf32 where a job says fp32 and the device can. */
enum tf32 { TF32_NONE, TF32_CONVOLUTIONS, TF32_ALL, TF32_COUNT };

/** Read a profile by name (searched in @files, or if that is NULL in platforms/software) or by
 * path.
 * @return the profile, or NULL: not found (exit code 66, with those that are near), or located
 * messages about its content: as of software_table, or two fits for one device. */
struct software *software_read(const struct files *files, const char *name, struct err *err);

void software_free(struct software *software);

/** Check that @device can run @software: a profile with a version of NCCL is of NVIDIA's GPUs.
 * @return 0, or -1. */
int software_check_device(const struct software *software, const struct device *device,
                          struct err *err);

/** The fit of the device called @device, or the one for all others; borrowed. */
const struct software_efficiency *software_find_fit(const struct software *software,
                                                    const char *device);

/** What a run on @nodes nodes takes beyond its epochs and evaluations [s]: 0.6 s before the first
 * step, with the first evaluation, on any number of nodes, and the rest, the first reading of the
 * images, of which each node reads its share; 0: the profile does not know.  Source: MLPerf's logs
 * of runs on one node. */
double software_startup(const struct software *software, int32_t nodes);

/** Give @device the values of its fit under @software: both efficiencies (of a network with experts
 * if @experts), the overhead and the fusion; and what it says of collectives beside compute. */
void software_apply(const struct software *software, bool experts, struct device *device);

/** The rows of a profile file. */
extern const struct field_table software_table;
