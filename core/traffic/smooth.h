#pragma once

/** @file
 * Smoothed traffic: close to the original, with far more symmetry.
 *
 * Two changes are made, neither of which affects a link that can be a bottleneck:
 *
 *   1. A link is left out of the routes when the flows of no lane can fill it, because each of them
 *      comes through a narrower link and those links together carry no more than it does.  That is
 *      exact as long as the lanes of different ranks do not fill it together.
 *   2. All routes of a relation take as long as the slowest of them.  A ring or a torus goes at the
 *      pace of its slowest message anyway, so this is a little pessimistic.
 *
 * Racks that do not tile the grid then no longer distinguish ranks.
 */

#include "core/traffic/traffic.h"

/** Smooth @traffic.  @return how many links were left out. */
int32_t traffic_smooth(struct traffic *traffic);
