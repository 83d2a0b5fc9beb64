#include "tests/cuda/fake/fake_runtime.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda/fake/fake_inner.hpp"

namespace fake
{

thread_local int capturing;
thread_local bool in_host_function;

registry &all()
{
    static registry *one = new registry; /* never destroyed: threads may outlive main() */
    return *one;
}

void misuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("misuse of the CUDA runtime: ", stderr);
    vfprintf(stderr, format, list);
    fputs("\n", stderr);
    va_end(list);
    abort();
}

void enter(const char *call)
{
    if (in_host_function)
        misuse("%s in a host function", call);
}

void enter_outside_capture(const char *call)
{
    enter(call);
    if (capturing > 0)
        misuse("%s while this thread captures a stream", call);
}

void add_handle(const void *handle)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    all().handle[handle] = true;
    all().alive++;
}

void check_handle(const void *handle, const char *call)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    auto found = all().handle.find(handle);
    if (found == all().handle.end() || !found->second)
        misuse("%s on a handle that is unknown or was destroyed", call);
}

void drop_handle(const void *handle, const char *call)
{
    check_handle(handle, call);
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    all().handle[handle] = false;
    all().alive--;
}

} // namespace fake

using namespace fake;

namespace
{

thread_local int chosen;             /* device */
thread_local cudaError_t last_error; /* not yet asked for */

cudaError_t fail(cudaError_t error)
{
    last_error = error;
    return error;
}

/* ---- memory ---- */

/* Bytes from @pointer to the end of its allocation in @map; 0: it is in none. */
size_t room(const std::map<const char *, size_t> &map, const void *pointer)
{
    const char *place = static_cast<const char *>(pointer);
    auto found = map.upper_bound(place);
    if (found == map.begin())
        return 0;
    --found;
    size_t offset = size_t(place - found->first);
    return offset < found->second ? found->second - offset : 0;
}

void check_device(const void *pointer, size_t size, const char *call)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    size_t left = room(all().device, pointer);
    if (size > 0 && left < size)
        misuse("%s: %zu bytes at a place with %zu bytes of device memory", call, size, left);
}

void check_host(const void *pointer, size_t size, const char *call)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    size_t left = room(all().pinned, pointer);
    if (room(all().device, pointer))
        misuse("%s: device memory where the host's is expected", call);
    if (left > 0 && left < size)
        misuse("%s: %zu bytes at a place with %zu bytes of pinned memory", call, size, left);
}

void check_copy(void *to, const void *from, size_t size, cudaMemcpyKind kind, const char *call)
{
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice)
        check_device(to, size, call);
    else
        check_host(to, size, call);
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)
        check_device(from, size, call);
    else
        check_host(from, size, call);
    if (kind == cudaMemcpyDefault || kind == cudaMemcpyHostToHost)
        misuse("%s: a kind of copy that the software runtime does not know", call);
}

void check_pinned(const void *pointer, size_t size)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    if (room(all().pinned, pointer) < size)
        misuse("a copy of pageable memory is captured");
}

void *allocate(std::map<const char *, size_t> &map, size_t size, int fill)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    size_t rounded = size > 0 ? (size + 255) / 256 * 256 : 256;
    char *memory = static_cast<char *>(aligned_alloc(256, rounded));
    if (!memory)
        abort();
    memset(memory, fill, rounded);
    map[memory] = size;
    return memory;
}

void release(std::map<const char *, size_t> &map, void *memory, const char *call)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    if (!map.erase(static_cast<const char *>(memory)))
        misuse("%s of memory that is unknown or was freed", call);
    free(memory);
}

} // namespace

/* ---- what tests use ---- */

void fake_lazy(bool lazy)
{
    all().lazy = lazy;
}

void fake_devices(int count)
{
    all().devices = count;
}

void fake_capacity(size_t bytes)
{
    all().capacity = bytes;
}

size_t fake_in_use(void)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    return all().in_use;
}

int64_t fake_objects(void)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    return all().alive + int64_t(all().device.size() + all().pinned.size());
}

void fake_pass(double seconds)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    all().passed += seconds;
}

int64_t fake_launches(void)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    return all().launches;
}

bool fake_on_device(const void *pointer)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    return room(all().device, pointer) > 0;
}

/* ---- the runtime: devices and errors ---- */

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    enter(__func__);
    *count = all().devices;
    return all().devices > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    enter(__func__);
    if (device < 0 || device >= all().devices)
        return fail(cudaErrorInvalidDevice);
    chosen = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    enter(__func__);
    *device = chosen;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    enter(__func__);
    if (device < 0 || device >= all().devices)
        return fail(cudaErrorInvalidDevice);
    *properties = cudaDeviceProp();
    snprintf(properties->name, sizeof(properties->name), "software");
    properties->major = 9;
    properties->multiProcessorCount = 4;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxThreadsPerBlock = 1024;
    properties->totalGlobalMem = all().capacity;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = all().devices > 0 ? CUDART_VERSION : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    *total = all().capacity;
    *available = all().capacity - all().in_use;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return "an error of the software runtime";
    }
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **memory, size_t size)
{
    enter_outside_capture(__func__);
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    if (all().devices == 0)
        return fail(cudaErrorNoDevice);
    if (all().in_use + size > all().capacity)
        return fail(cudaErrorMemoryAllocation);
    *memory = allocate(all().device, size, 0xFF);
    all().in_use += size;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    enter_outside_capture(__func__);
    std::lock_guard<std::recursive_mutex> guard(all().lock);
    if (!memory)
        return cudaSuccess;
    auto found = all().device.find(static_cast<const char *>(memory));
    if (found != all().device.end())
        all().in_use -= found->second;
    release(all().device, memory, __func__);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t size)
{
    enter_outside_capture(__func__);
    *memory = allocate(all().pinned, size, 0xFF);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    enter_outside_capture(__func__);
    if (memory)
        release(all().pinned, memory, __func__);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    enter_outside_capture(__func__);
    check_copy(to, from, size, kind, __func__);
    memcpy(to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t size)
{
    enter_outside_capture(__func__);
    check_device(memory, size, __func__);
    memset(memory, value, size);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    enter(__func__);
    if (stream)
        check_handle(stream, __func__);
    check_copy(to, from, size, kind, __func__);
    if (is_captured(stream) && kind == cudaMemcpyHostToDevice)
        check_pinned(from, size);
    if (is_captured(stream) && kind == cudaMemcpyDeviceToHost)
        check_pinned(to, size);
    fake_enqueue(stream, [=] { memcpy(to, from, size); });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    if (kind != cudaMemcpyDeviceToDevice || width > to_pitch || width > from_pitch)
        misuse("%s: rows of %zu bytes, and a pitch below", __func__, width);
    for (size_t row = 0; row < height; row++)
        cudaMemcpyAsync(static_cast<char *>(to) + row * to_pitch,
                        static_cast<const char *>(from) + row * from_pitch, width, kind, stream);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream)
{
    enter(__func__);
    check_device(memory, size, __func__);
    fake_enqueue(stream, [=] { memset(memory, value, size); });
    return cudaSuccess;
}

} // extern "C"
