#include "app/lab/lab_net.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/lab/lab_on.h"
#include "app/process/process.h"
#include "core/base/base.h"

#define BATCH "/run/lab/batch"
#define TALK  "/run/lab/talk"

static int write_file(const char *path, const char *text, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ssize_t length = (ssize_t)strlen(text);
    int failed = file < 0 || write(file, text, (size_t)length) != length;
    if (file >= 0)
        close(file);
    return failed ? -1 : 0;
}

static int put_file(const char *path, const struct text *text, mode_t mode, struct err *err)
{
    if (write_file(path, text->data, mode) == 0)
        return 0;
    return err_add_code(err, 70, "cannot write %s in the lab: %s", path, strerror(errno));
}

static struct text read_file(const char *path)
{
    struct text text = {0};
    char part[4096];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; file >= 0 && (got = read(file, part, sizeof(part))) > 0;)
        text_append(&text, part, got);
    if (file >= 0)
        close(file);
    text_add(&text, "%s", "");
    return text;
}

/* --- processes --- */

int lab_enter(const char *kind, const char *name, int type)
{
    AUTOFREE char *path = base_format("/run/%s/%s", kind, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int failed = file < 0 || setns(file, type);
    if (file >= 0)
        close(file);
    return failed ? -1 : 0;
}

int32_t lab_start_in_host(const struct cabling *cabling, int32_t host, int (*call)(void *),
                          void *argument, struct err *err)
{
    char name[LAB_NAME_LIMIT];
    lab_host_name(cabling, host, name);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(lab_enter("netns", name, CLONE_NEWNET) ? 255 : call(argument));
    if (pid < 0)
        err_add_code(err, 70, "the lab cannot start a process: %s", strerror(errno));
    return pid;
}

int lab_in_host(const struct cabling *cabling, int32_t host, int (*call)(void *argument),
                void *argument, struct err *err)
{
    pid_t pid = lab_start_in_host(cabling, host, call, argument, err);
    return pid < 0 ? -1 : process_wait(pid);
}

/* Run `ip` or `tc` (@tool) with the lines of @script, on host @name or, with NULL, where the
 * switches are.  Its messages are kept in TALK. */
static int run_batch(const char *tool, const char *name, struct text *script, struct err *err)
{
    if (!script->length)
        return 0;
    int failed = put_file(BATCH, script, 0600, err);
    text_release(script);
    if (failed)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int talk = open(TALK, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (talk < 0)
            _exit(126);
        dup2(talk, STDOUT_FILENO);
        dup2(talk, STDERR_FILENO);
        if (name)
            execlp(tool, tool, "-s", "-n", name, "-batch", BATCH, (char *)NULL);
        else
            execlp(tool, tool, "-s", "-batch", BATCH, (char *)NULL);
        _exit(127);
    }
    int code = pid < 0 ? -1 : process_wait(pid);
    if (code == 0)
        return 0;
    AUTORELEASE(text) struct text talk = read_file(TALK);
    err_add_code(err, 70, "the lab cannot build its network: %s on %s: %.*s (exit code %d)", tool,
                 name ? name : "the switches", (int)strcspn(talk.data, "\n"), talk.data, code);
    return -1;
}

/* --- hosts --- */

/* Of every host: one fixed congestion control instead of the machine's (bbr paces by itself), small
 * windows so that no queue overflows, no reuse of metrics of earlier connections. */
static const char *const settings[][2] = {
    {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"},
    {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"},
    {"/proc/sys/net/ipv4/conf/all/rp_filter", "0"},
    {"/proc/sys/net/ipv4/conf/default/rp_filter", "0"},
    {"/proc/sys/net/ipv4/tcp_congestion_control", "reno"},
    {"/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0"},
    {"/proc/sys/net/ipv4/tcp_no_metrics_save", "1"},
    {"/proc/sys/net/ipv4/tcp_rmem", "4096 131072 262144"},
    {"/proc/sys/net/ipv4/tcp_wmem", "4096 131072 262144"},
};

static int set_up_host(const char *name)
{
    static const char *const kind[] = {"net", "uts"}, *const folder[] = {"netns", "uts"};
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) || sethostname(name, strlen(name)))
        return 1;
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
        if (write_file(settings[i][0], settings[i][1], 0) && errno != ENOENT)
            return 2 + (int)i;
    for (int i = 0; i < 2; i++) {
        AUTOFREE char *from = base_format("/proc/self/ns/%s", kind[i]);
        AUTOFREE char *to = base_format("/run/%s/%s", folder[i], name);
        int failed = write_file(to, "", 0600) || mount(from, to, NULL, MS_BIND, NULL);
        if (failed)
            return 1;
    }
    return 0;
}

static int make_host(const char *name, struct err *err)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(set_up_host(name));
    int code = pid < 0 ? 1 : process_wait(pid);
    if (code == 0)
        return 0;
    return err_add_code(err, 69, "the lab cannot make host %s: %s%s", name,
                        code > 1 ? "this machine does not let it set " : "no network namespace",
                        code > 1 ? settings[code - 2][0] : "");
}

/* This program under its names in a lab: links to its path. */
static int link_programs(struct err *err)
{
    static const char *const path[] = {LAB_PROGRAMS "/" LAB_ON, LAB_PROGRAMS "/" LAB_AGENT};
    char own[4096] = "";
    if (readlink("/proc/self/exe", own, sizeof(own) - 1) < 0)
        return err_add_code(err, 70, "the lab does not find this program: %s", strerror(errno));
    for (size_t i = 0; i < ARRAY_SIZE(path); i++)
        if (symlink(own, path[i]))
            return err_add_code(err, 70, "cannot make %s in the lab: %s", path[i], strerror(errno));
    return 0;
}

static int make_folders(struct err *err)
{
    static const char *const folder[] = {"/run/netns", "/run/uts", "/run/lab", LAB_PROGRAMS,
                                         "/run/lab/tmp"};
    for (size_t i = 0; i < ARRAY_SIZE(folder); i++)
        if (mkdir(folder[i], 0755))
            return err_add_code(err, 70, "cannot make %s in the lab: %s", folder[i],
                                strerror(errno));
    return link_programs(err);
}

int lab_make_hosts(const struct cabling *cabling, struct err *err)
{
    AUTORELEASE(text) struct text names = {0}, slots = {0};
    char name[LAB_NAME_LIMIT];
    int failed = make_folders(err);
    text_add(&names, "127.0.0.1 localhost\n10.78.255.254 head\n");
    for (int32_t i = 0; i < lab_hosts(cabling) && !failed; i++) {
        lab_host_name(cabling, i, name);
        text_add(&names, "10.77.0.%d %s\n", i + 1, name);
        text_add(&slots, "%s slots=%d\n", name, lab_slots(cabling, i % cabling->nics));
        failed = make_host(name, err);
    }
    if (!failed)
        failed = put_file("/run/lab/hosts", &names, 0644, err) ||
                 put_file("/run/lab/hostfile", &slots, 0644, err);
    if (!failed && mount("/run/lab/hosts", "/etc/hosts", NULL, MS_BIND, NULL))
        failed = err_add_code(err, 70, "the lab cannot set its /etc/hosts: %s", strerror(errno));
    return failed ? -1 : 0;
}

/* --- network --- */

/* The switch of group @group of tier @tier, or the one above all. */
static char *switch_name(const struct cabling *cabling, int32_t tier, int32_t node)
{
    return tier == cabling->tier_count
               ? base_copy("top")
               : base_format("s%dg%d", tier, node / cabling->tier[tier].nodes);
}

static void add_switch(struct text *out, const char *name)
{
    text_add(out, "link add %s type bridge stp_state 0 mcast_snooping 0\n", name);
    text_add(out, "link set %s mtu %d up\n", name, LAB_MTU);
}

/* Groups from the top down, each with its cable to the switch above. */
static void add_switches(struct text *out, const struct cabling *cabling)
{
    add_switch(out, "top");
    for (int32_t t = cabling->tier_count - 1; t >= 0; t--) {
        int32_t nodes = cabling->tier[t].nodes;
        for (int32_t node = 0; node < cabling->nodes; node += nodes) {
            AUTOFREE char *own = switch_name(cabling, t, node),
                          *above = switch_name(cabling, t + 1, node);
            int32_t group = node / nodes;
            add_switch(out, own);
            text_add(out, "link add u%dg%d mtu %d type veth peer name d%dg%d mtu %d\n", t, group,
                     LAB_MTU, t, group, LAB_MTU);
            text_add(out, "link set u%dg%d master %s up\n", t, group, own);
            text_add(out, "link set d%dg%d master %s up\n", t, group, above);
        }
    }
}

static void add_card(struct text *out, const struct cabling *cabling, int32_t host)
{
    char name[LAB_NAME_LIMIT];
    AUTOFREE char *above = switch_name(cabling, 0, host / cabling->nics);
    lab_host_name(cabling, host, name);
    text_add(out,
             "link add v%d mtu %d type veth peer name eth0 mtu %d address 02:77:00:00:00:%02x "
             "netns %s\n",
             host, LAB_MTU, LAB_MTU, host, name);
    text_add(out, "link set v%d master %s up\n", host, above);
    text_add(out, "link add c%d type veth peer name ctl0 netns %s\n", host, name);
    text_add(out, "link set c%d master control up\n", host);
    if (cabling->nics > 1) {
        text_add(out,
                 "link add i%d mtu %d type veth peer name in0 mtu %d address 02:79:00:00:00:%02x "
                 "netns %s\n",
                 host, LAB_MTU, LAB_MTU, host, name);
        text_add(out, "link set i%d master n%d up\n", host, host / cabling->nics);
    }
}

/* Neighbours are fixed entries, so that there are no ARP requests during a measurement; the minimum
 * retransmission timeout is long, because queues of the lab are longer than TCP expects. */
static void add_addresses(struct text *out, const struct cabling *cabling, int32_t host)
{
    /* Two frames pass the buckets in one piece, which halves the timers; the kernel subtracts 321
     * bytes for the largest headers from this size (MAX_TCP_HEADER + 1). */
    const int32_t gso = 2 * LAB_PAYLOAD + 512;
    int32_t node = host / cabling->nics;
    text_add(out, "link set lo up\nlink set eth0 gso_max_size %d up\nlink set ctl0 up\n", gso);
    text_add(out, "addr add 10.77.0.%d/16 dev eth0\naddr add 10.78.0.%d/16 dev ctl0\n", host + 1,
             host + 1);
    text_add(out, "route change 10.77.0.0/16 dev eth0 src 10.77.0.%d rto_min 3s quickack 1\n",
             host + 1);
    if (cabling->nics > 1)
        text_add(out, "link set in0 up\n");
    for (int32_t i = 0; i < lab_hosts(cabling); i++) {
        bool inside = i / cabling->nics == node;
        if (i == host)
            continue;
        text_add(out, "neigh replace 10.77.0.%d lladdr 02:%s:00:00:00:%02x dev %s nud permanent\n",
                 i + 1, inside ? "79" : "77", i, inside ? "in0" : "eth0");
        if (inside)
            text_add(out, "route add 10.77.0.%d/32 dev in0 src 10.77.0.%d\n", i + 1, host + 1);
    }
}

int lab_make_network(const struct cabling *cabling, struct err *err)
{
    struct text script = {0};
    int32_t hosts = lab_hosts(cabling);
    write_file(settings[0][0], settings[0][1], 0);
    write_file(settings[1][0], settings[1][1], 0);
    text_add(&script, "link set lo up\nlink add control type bridge stp_state 0\n");
    text_add(&script, "addr add 10.78.255.254/16 dev control\nlink set control up\n");
    add_switches(&script, cabling);
    for (int32_t node = 0; node < cabling->nodes && cabling->nics > 1; node++) {
        AUTOFREE char *name = base_format("n%d", node);
        add_switch(&script, name);
    }
    for (int32_t i = 0; i < hosts; i++)
        add_card(&script, cabling, i);
    int failed = run_batch("ip", NULL, &script, err);
    for (int32_t i = 0; i < hosts && !failed; i++) {
        char name[LAB_NAME_LIMIT];
        lab_host_name(cabling, i, name);
        add_addresses(&script, cabling, i);
        failed = run_batch("ip", name, &script, err);
    }
    return failed;
}

/* --- rates --- */

/* Bytes that @senders hosts may have in flight: a queue must never overflow. */
static void add_bucket(struct text *out, const char *device, double rate, int32_t senders)
{
    const int32_t window = 512 * 1024; /* of a sender, with what the kernel adds [bytes] */
    text_add(out, "qdisc replace dev %s root tbf rate %.0fbit burst %d limit %d\n", device,
             8.0 * rate, LAB_BURST, (senders + 2) * window);
}

static int shape_host(const struct cabling *cabling, int32_t host, double rate, struct err *err)
{
    char name[LAB_NAME_LIMIT];
    struct text script = {0};
    lab_host_name(cabling, host, name);
    add_bucket(&script, "eth0", rate, lab_hosts(cabling));
    return run_batch("tc", name, &script, err);
}

static void add_port(struct text *out, const struct cabling *cabling, int32_t host, double rate)
{
    AUTOFREE char *port = base_format("v%d", host);
    add_bucket(out, port, rate, lab_hosts(cabling));
}

int lab_set_rate(const struct cabling *cabling, int32_t host, double rate, struct err *err)
{
    struct text script = {0};
    add_port(&script, cabling, host, rate);
    return run_batch("tc", NULL, &script, err) || shape_host(cabling, host, rate, err) ? -1 : 0;
}

int lab_shape(const struct cabling *cabling, struct err *err)
{
    struct text script = {0};
    for (int32_t i = 0; i < lab_hosts(cabling); i++)
        add_port(&script, cabling, i, cabling->nic.bandwidth);
    for (int32_t t = 0; t < cabling->tier_count; t++) {
        const struct lab_tier *tier = &cabling->tier[t];
        for (int32_t group = 0; group * tier->nodes < cabling->nodes; group++) {
            AUTOFREE char *up = base_format("u%dg%d", t, group),
                          *down = base_format("d%dg%d", t, group);
            add_bucket(&script, up, tier->cable.bandwidth * tier->uplinks, lab_hosts(cabling));
            add_bucket(&script, down, tier->cable.bandwidth * tier->uplinks, lab_hosts(cabling));
        }
    }
    int failed = run_batch("tc", NULL, &script, err);
    for (int32_t i = 0; i < lab_hosts(cabling) && !failed; i++)
        failed = shape_host(cabling, i, cabling->nic.bandwidth, err);
    return failed;
}

/* --- counters --- */

static void add_numbers(const char *text, const char *word, int64_t *sum)
{
    for (const char *at = text; (at = strstr(at, word));) {
        at += strlen(word);
        *sum += strtoll(at, NULL, 10);
    }
}

static int count_links(const char *name, struct lab_result *result, struct err *err)
{
    struct text script = {0};
    text_add(&script, "qdisc show\n");
    if (run_batch("tc", name, &script, err))
        return -1;
    AUTORELEASE(text) struct text talk = read_file(TALK);
    add_numbers(talk.data, "dropped ", &result->drops);
    add_numbers(talk.data, "overlimits ", &result->overlimits);
    return 0;
}

static int copy_snmp(void *unused)
{
    struct text text = read_file("/proc/net/snmp");
    return write_file(TALK, text.data, 0600) ? 1 : 0;
}

/* Two lines that begin with "Tcp:": names, then numbers. */
static int64_t retransmits(const char *snmp)
{
    const char *names = strstr(snmp, "Tcp:"), *values = names ? strstr(names + 1, "Tcp:") : NULL;
    const char *column = names ? strstr(names, "RetransSegs") : NULL;
    if (!values || !column)
        return 0;
    int64_t number = 0;
    for (const char *at = names; at < column; at++)
        number += *at == ' ';
    for (; number > 0 && *values; values++)
        number -= *values == ' ';
    return strtoll(values, NULL, 10);
}

int lab_count(const struct cabling *cabling, struct lab_result *result, struct err *err)
{
    int failed = count_links(NULL, result, err);
    for (int32_t i = 0; i < lab_hosts(cabling) && !failed; i++) {
        char name[LAB_NAME_LIMIT];
        lab_host_name(cabling, i, name);
        failed =
            count_links(name, result, err) || lab_in_host(cabling, i, copy_snmp, NULL, err) != 0;
        if (failed)
            break;
        AUTORELEASE(text) struct text snmp = read_file(TALK);
        result->retransmits += retransmits(snmp.data);
    }
    return failed ? -1 : 0;
}
