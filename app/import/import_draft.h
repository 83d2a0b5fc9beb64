#pragma once

/** @file
 * What foretrain-read prints of a file of another tool: the draft of a platform, as JSON.
 *
 * A draft is an object.  Numbers are in SI; [value, provenance, source] is a quantity.
 *
 * | member | meaning |
 * |---|---|
 * | understood, assumed, warnings | lines for people |
 * | description | text |
 * | device, model | of platforms/devices; what a driver calls one |
 * | nodes, cards | how many; cards of a node of which the file knows no more |
 * | vertices | [devices, switches, CPUs, cards] of a node |
 * | links | kinds of cable: {name, bandwidth, efficiency} |
 * | cables | [vertex, vertex, kind of cable]; vertices are numbered as in core/network/wiring.h |
 * | nic | {bandwidth, efficiency} of a card |
 * | tiers | smallest first: {name, nodes, uplinks (0: not known), rails, bandwidth} |
 * | nccl | {intra, channels, why, bandwidth} |
 * | times | all-reduces: {ranks, nodes, rows: [[bytes, seconds], ...]} |
 * | pair | messages of two ranks: {nodes, latency: rows, bandwidth: rows} |
 *
 * The program is written in Python and optional; app/readers has its sources.
 */

#include "app/import/import.h"

/** Run foretrain-read for a file @name of kind @kind, whose content is the open file @input; of
 * ONNX, @ranks is 1 where operations that are not known count by the bytes they move.
 * @return its answer, to be released with json_free(), or NULL: Python or the program is not there
 * (exit code 69), the program's message and exit code, that it was killed (70). */
struct json *import_run_reader(const char *kind, const char *name, int input, int32_t ranks,
                               int32_t nodes, struct err *err);
