#pragma once

/** @file
 * The files of a page, in place of those of a disk.  Built for WebAssembly alone, where every
 * source includes this first.
 */

/** Keep @text as the file @name: "job", "platform", "device", "software" or "network".  Both are
 * taken over. */
void host_add_file(char *name, char *text);

/** As POSIX has it, which wasi-libc of 2022 lacks: names are what they are. */
char *realpath(const char *restrict path, char *restrict out);
