#pragma once

/** @file
 * Symmetry: the ranks and links that a platform and a traffic cannot distinguish.
 *
 * Ranks of one class send at the same moments, to ranks of one class, over links of the same
 * classes; links of one class carry the same flows.  Such a partition is found by colour
 * refinement: start from one colour of ranks of a stage and a colour per bandwidth, split colours
 * whose members have different neighbours, until nothing splits.  With fair sharing, equal ranks
 * then stay equal, so simulating one member of each class is exact.
 *
 * The condition for exactness is checked without trusting hashes: every link of a class is crossed
 * equally often by each class of flows, that is size of the rank class / size of the link class
 * times.
 */

#include "core/traffic/traffic.h"

/* Smoothed traffic: close to the original, with far more symmetry.
 *
 * Two changes are made, neither of which affects a link that can be a bottleneck:
 *
 *   1. A link is left out of the routes when the flows of no lane can fill it, because each of them
 *      comes through a narrower link and those links together carry no more than it does.  That is
 *      exact as long as the lanes of different ranks do not fill it together.
 *   2. All routes of a relation take as long as the slowest of them.  A ring or a torus goes at the
 *      pace of its slowest message anyway, so this is a little pessimistic.
 *
 * Racks that do not tile the grid then no longer distinguish ranks. */

/** Smooth @traffic.  @return how many links were left out. */
int32_t traffic_smooth(struct traffic *traffic);

/** A partition of ranks and links into classes.  Read freely; release with fold_free(). */
struct fold {
    int32_t count;        /**< classes of ranks */
    int32_t *class_of;    /**< (ranks) class of each rank */
    int32_t *member;      /**< (count) the lowest rank of each class, which represents it */
    int32_t *size;        /**< (count) ranks in each class */
    int32_t link_count;   /**< classes of links */
    int32_t *link_class;  /**< (links) class of each link */
    int32_t *link_member; /**< (link_count) the lowest link of each class */
    int32_t *link_size;   /**< (link_count) links in each class */
};

/** The coarsest partition that is exact for @traffic.  Never fails. */
struct fold *fold_build(const struct traffic *traffic);

/** Every rank and every link a class of its own. */
struct fold *fold_none(const struct traffic *traffic);

void fold_free(struct fold *fold);

/** Put classes in place of the ranks of @traffic, and classes of links in place of its links: one
 * of which k flows of a class cross each link has it k times in its route.  So the one flow weighs
 * as much as the k flows.  Equal rounds that follow each other become one. */
void traffic_fold(struct traffic *traffic, const struct fold *fold);
