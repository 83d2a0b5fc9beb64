#pragma once

/** @file
 * Failures of the CUDA runtime.
 */

#include <cuda_runtime_api.h>

/** Make @call; if it fails, report it with its place and end the job with exit code 70. */
#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)

/** Like CUDA_CHECK(), if a launch failed since the last call; @what names the launches. */
#define CUDA_CHECK_LAUNCHES(what) cuda_check(cudaGetLastError(), (what), __FILE__, __LINE__)

/** See CUDA_CHECK(). */
void cuda_check(cudaError_t error, const char *call, const char *file, int line);
