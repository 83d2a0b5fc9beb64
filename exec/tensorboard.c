#include "exec/tensorboard.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How a field of a protocol buffer is stored. */
enum wire { WIRE_VARINT = 0, WIRE_DOUBLE = 1, WIRE_BYTES = 2, WIRE_FLOAT = 5 };

/* Numbers of fields: of Event, of SessionLog, of Summary and of Summary.Value. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

uint32_t tensorboard_crc(const void *data, int64_t size)
{
    static uint32_t table[256];
    const unsigned char *byte = data;
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t entry = i;
            for (int32_t bit = 0; bit < 8; bit++)
                entry = entry >> 1 ^ (entry & 1 ? UINT32_C(0x82f63b78) : 0);
            table[i] = entry;
        }
    uint32_t crc = UINT32_MAX;
    for (int64_t i = 0; i < size; i++)
        crc = crc >> 8 ^ table[(crc ^ byte[i]) & 0xff];
    return ~crc;
}

static uint32_t masked_crc(const void *data, int64_t size)
{
    uint32_t crc = tensorboard_crc(data, size);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_varint(struct text *out, uint64_t value)
{
    char byte[10];
    int64_t count = 0;
    for (; value >= 0x80; value >>= 7)
        byte[count++] = (char)(value | 0x80);
    byte[count++] = (char)value;
    text_append(out, byte, count);
}

static void put_key(struct text *out, uint32_t field, enum wire wire)
{
    put_varint(out, field << 3 | wire);
}

static void put_bytes(struct text *out, uint32_t field, const char *data, int64_t size)
{
    put_key(out, field, WIRE_BYTES);
    put_varint(out, (uint64_t)size);
    text_append(out, data, size);
}

static struct text new_event(double unix_s, int64_t step)
{
    struct text event = {0};
    put_key(&event, EVENT_TIME, WIRE_DOUBLE);
    text_append(&event, (const char *)&unix_s, sizeof(unix_s));
    put_key(&event, EVENT_STEP, WIRE_VARINT);
    put_varint(&event, (uint64_t)step);
    return event;
}

/* Frame and release @event. */
static void put_record(struct log_file *file, struct text *event)
{
    uint64_t length = (uint64_t)event->length;
    uint32_t before = masked_crc(&length, sizeof(length));
    uint32_t after = masked_crc(event->data, event->length);
    log_file_put(file, &length, sizeof(length));
    log_file_put(file, &before, sizeof(before));
    log_file_put(file, event->data, event->length);
    log_file_put(file, &after, sizeof(after));
    text_release(event);
}

int tensorboard_open(struct log_file *file, const char *directory, struct err *err)
{
    static const char version[] = "brain.Event:2";
    static int32_t opened;
    char host[256] = "";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gethostname(host, sizeof(host) - 1) != 0 || !*host || strchr(host, '/'))
        strcpy(host, "localhost");
    char *name = base_format("events.out.tfevents.%010lld.%s.%d.%d", (long long)now.tv_sec, host,
                             (int)getpid(), opened++);
    int failed = log_file_open(file, directory, name, err);
    free(name);
    if (failed)
        return -1;
    struct text event = new_event((double)now.tv_sec + (double)now.tv_nsec * 1e-9, 0);
    put_bytes(&event, EVENT_VERSION, version, (int64_t)strlen(version));
    put_record(file, &event);
    return 0;
}

void tensorboard_start(struct log_file *file, double unix_s, int64_t step)
{
    struct text event = new_event(unix_s, step), session = {0};
    put_key(&session, SESSION_STATUS, WIRE_VARINT);
    put_varint(&session, SESSION_START);
    put_bytes(&event, EVENT_SESSION, session.data, session.length);
    put_record(file, &event);
    text_release(&session);
}

void tensorboard_put(struct log_file *file, double unix_s, int64_t step,
                     const struct tensorboard_scalar *scalar, int32_t count)
{
    struct text event = new_event(unix_s, step), summary = {0}, value = {0};
    for (int32_t i = 0; i < count; i++) {
        value.length = 0;
        put_bytes(&value, VALUE_TAG, scalar[i].tag, (int64_t)strlen(scalar[i].tag));
        put_key(&value, VALUE_SIMPLE, WIRE_FLOAT);
        text_append(&value, (const char *)&scalar[i].value, sizeof(scalar[i].value));
        put_bytes(&summary, SUMMARY_VALUE, value.data, value.length);
    }
    put_bytes(&event, EVENT_SUMMARY, summary.data, summary.length);
    put_record(file, &event);
    text_release(&summary);
    text_release(&value);
}
