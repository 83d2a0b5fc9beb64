#include "tests/cuda/fake/fake_nvjpeg.h"

#include <dlfcn.h>
#include <stddef.h>

struct fake_nvjpeg *fake_nvjpeg(void)
{
    void *library = dlopen("libnvjpeg.so.13", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return NULL;
    struct fake_nvjpeg *control = dlsym(library, "fake_nvjpeg_control");
    dlclose(library);
    return control;
}
