#pragma once

/** @file
 * Which network cards an all-reduce uses.
 */

#include "core/network/fabric.h"
#include "core/schedule/schedule.h"

/** "1 ring: 1 of 8 network cards of a node sends", for the all-reduces of @schedule on @fabric; the
 * mean where nodes differ.  NULL: no node has cards, nothing crosses a network, or only NCCL knows.
 * With @brief also where all cards send and that is no matter of rings.  The caller frees it. */
char *cards_text(const struct fabric *fabric, const struct schedule *schedule, bool brief);
