#include "tests/exec/input/fixture.h"

void fixture_tar(struct text *tar, const char *name, char type, const void *data, int64_t size)
{
    char header[512] = {0};
    static const char zero[512];
    snprintf(header, 100, "%s", name);
    memcpy(header + 100, "0000644", 7);
    snprintf(header + 124, 12, "%011llo", (unsigned long long)size);
    memset(header + 148, ' ', 8);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    int32_t sum = 0;
    for (int32_t i = 0; i < 512; i++)
        sum += (uint8_t)header[i];
    snprintf(header + 148, 8, "%06o", (unsigned)sum & 0777777);
    text_append(tar, header, 512);
    text_append(tar, data, size);
    text_append(tar, zero, (512 - size % 512) % 512);
}

void fixture_tar_end(struct text *tar)
{
    static const char zero[1024];
    text_append(tar, zero, 1024);
}
