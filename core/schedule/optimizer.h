#pragma once

/** @file
 * What an optimizer keeps, and moves in an update, for each parameter.
 *
 * w is a weight in the type of the masters, g its gradient in the type of the exchange, m and v
 * moments and u the update before it is scaled, these as wide as w.  Fused multi-tensor kernels
 * move (r read, w written):
 *
 *   optimizer  state  update                          norms    bytes in fp32
 *   sgd        m      w rw, m rw, g r                          20
 *   lars       m      w rw, m rw, g r                 w r, g r 28
 *   adamw      m, v   w rw, m rw, v rw, g r                    28
 *   lamb       m, v   w rrw, m rw, v rw, u wr, g r    w r, u r 48
 *   rmsprop    v, m   w rw, v rw, m rw, g r                    28; without momentum 20
 *   adafactor  rows   w rw, u wr, g rr                w r, u r 32
 *
 * Where the arithmetic has another type than the masters, a copy to compute with is written, too.
 * Clipping by the global norm reads g once more, where no norms of g are formed anyway; the scaling
 * is part of the update, as in apex (torch.nn.utils.clip_grad_norm_ reads and writes g to scale
 * it).  One launch per 54 tensors and list.
 *
 * Sources: sgd, lars: MXNet's fused kernels multi_sum_sq, multi_lars, lars_multi_mp_sgd_mom_update
 * as set in NVIDIA's MLPerf submissions (MXNET_OPTIMIZER_AGGREGATION_SIZE=54).  adamw: fused=True
 * of PyTorch, apex FusedAdam.  lamb: apex multi_tensor_lamb, in two stages with norms of weights
 * and updates between them, u in the place of g.  rmsprop: torch.optim.RMSprop, TensorFlow.
 * adafactor: Shazeer and Stern 2018, algorithm 4, whose second moment of a matrix is the sums of
 * its rows and columns, without momentum; its kernels are assumed to be fused as far as sums allow.
 *
 * Measured (H200, PyTorch 2.11, fp32, 333 million parameters in 385 tensors): fused sgd and adamw
 * move these bytes at 49 and 41 % of the data sheet's bandwidth.  foreach passes over the lists
 * several times: 44 and 80 bytes a parameter by its operations, at 77 and 55 %.
 */

#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** Of each parameter. */
struct optimizer_cost {
    int32_t state;       /**< moments as wide as the masters; adafactor: 0, rows and columns */
    int32_t masters;     /**< words as wide as the masters that an update reads and writes */
    int32_t gradients;   /**< times that it reads the gradient */
    int32_t launches;    /**< kernels per list of tensors */
    int32_t norms;       /**< words as wide as the masters read for norms of tensors; 0: has none */
    bool gradient_norms; /**< those of the gradients are among the norms */
};

/** The row of the optimizer of @scenario. */
struct optimizer_cost optimizer_cost(const struct scenario *scenario);

/** Parameters that one of @shards ranks updates; fewer ranks have the same shared experts. */
int64_t optimizer_shard(const struct model *model, const struct scenario *scenario, int32_t shards);

/** Numbers as wide as the masters that the optimizer of @scenario keeps for a shard of one in
 * @shards of @model. */
int64_t optimizer_state(const struct model *model, const struct scenario *scenario, int32_t shards);

/** Whether devices train with it, GPUs if @gpu; others are for predictions. */
bool optimizer_is_trained(const struct scenario *scenario, bool gpu);
