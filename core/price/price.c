#include "core/price/price.h"

#include "core/config/unknown.h"
#include "core/platform/platform.h"

#define ROW(key, member, ...)               FIELD_ROW(key, prices, member, __VA_ARGS__)
#define TEXT(key, member, missing, meaning) ROW(key, member, missing, meaning, .kind = FIELD_TEXT)
#define NUMBER(key, member, of, least, most, meaning)                                              \
    ROW(key, member, "", meaning, .kind = FIELD_QUANTITY, .unit = of, .minimum = least,            \
        .maximum = most)

static const struct field price_rows[] = {
    ROW("version", version, NULL, "of this format", .kind = FIELD_INTEGER, .minimum = 1,
        .maximum = 1),
    TEXT("name", name, "", "the file's name without .yaml, which it is when not given"),
    TEXT("description", description, "", "one line for people"),
    TEXT("date", date, NULL, "as of which the numbers hold: 2026-03-31"),
    ROW("for", devices, "",
        "devices that the numbers are of, as in foretrain list devices; others are warned of",
        .kind = FIELD_TEXTS),
    TEXT("currency", currency, "", "of the prices: USD"),
    NUMBER("price.node_hour", node_hour, UNIT_NONE, 0, 1e9, "of a node for an hour"),
    NUMBER("price.device_hour", device_hour, UNIT_NONE, 0, 1e9,
           "of a device for an hour; of both the sum is paid"),
    NUMBER("price.mtbf", mtbf, UNIT_SECONDS, 1, 1e12,
           "mean time until a node at this price is taken away (spot); in place of node.mtbf"),
    NUMBER("purchase.node", purchase, UNIT_NONE, 0, 1e12,
           "price of a node that is bought, with its part of network and room"),
    NUMBER("purchase.lifetime", lifetime, UNIT_SECONDS, 3600, 1e9,
           "time over which it is written off to nothing: 35064 h are four years"),
    NUMBER("purchase.utilisation", utilisation, UNIT_FRACTION, 0.001, 1,
           "the part of its lifetime in which it trains"),
    NUMBER("power.device", device_power, UNIT_WATTS, 0, 1e6, "rated power of one device"),
    NUMBER("power.node", node_power, UNIT_WATTS, 0, 1e6,
           "rated power of a node beside its devices"),
    NUMBER("power.share", share, UNIT_FRACTION, 0.01, 1,
           "the part of the rated power that training draws"),
    NUMBER("power.pue", pue, UNIT_NONE, 1, 10,
           "power of the site, with cooling, over that of its computers"),
    NUMBER("carbon", carbon, UNIT_CARBON, 0, 1e4 / 3.6e9, "CO2 equivalent of the electricity"),
};
const struct field_table price_table = FIELD_TABLE("price", price_rows, struct prices);

/* ---- reading ---- */

static bool given(const struct quantity *quantity)
{
    return quantity->path != NULL;
}

/* Bounds take ranges only, and use no other spread. */
static int check_ranges(const struct node *node, struct err *err)
{
    int failed = 0;
    for (int32_t i = 0; i < node->child_count; i++) {
        const struct node *child = node->child[i];
        if (child->key && (!strcmp(child->key, "spread") || !strcmp(child->key, "one_of")))
            failed = origin_error(&child->key_origin, err,
                                  "'%s' has no effect on prices; give a range, {low: 2, high: 3}",
                                  child->key);
        failed |= check_ranges(child, err);
    }
    return failed;
}

static int check_needs(const struct prices *p, const struct node *root, struct err *err)
{
    bool bought = given(&p->purchase) && given(&p->lifetime) && given(&p->utilisation);
    bool price = given(&p->node_hour) || given(&p->device_hour) || bought;
    bool power = given(&p->device_power) || given(&p->node_power);
    const struct {
        bool fault;
        const char *at, *message;
    } faults[] = {
        {!bought && (given(&p->purchase) || given(&p->lifetime) || given(&p->utilisation)),
         "purchase", "a purchase needs node, lifetime and utilisation"},
        {!price && !power, "version",
         "the file prices nothing: give price.node_hour, price.device_hour, purchase.node, "
         "power.device or power.node"},
        {price && !p->currency, bought ? "purchase" : "price", "prices need the key 'currency'"},
        {!price && given(&p->mtbf), "price", "mtbf has no effect without a price"},
        {!price && p->currency, "currency", "currency has no effect without a price"},
        {power && (!given(&p->share) || !given(&p->pue)), "power",
         "energy needs power.share and power.pue; a share of 100 %% and a PUE of 1 count all and "
         "only the rated power"},
        {!power && (given(&p->share) || given(&p->pue)), "power",
         "share and pue have no effect without power.device or power.node"},
        {!power && given(&p->carbon), "carbon", "carbon has no effect without power"},
    };
    int failed = 0;
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        if (faults[i].fault)
            failed = origin_error(&field_origin(root, faults[i].at)->origin, err, "%s",
                                  faults[i].message);
    struct tm day = {0};
    const char *rest = strptime(p->date, "%Y-%m-%d", &day);
    if (!rest || *rest)
        failed = origin_error(&field_origin(root, "date")->origin, err,
                              "'%s' is not a date, for example 2026-03-31", p->date);
    return failed;
}

/* All ranges at their low (@quantile 0) or their high end (1). */
static int read_end(struct prices *prices, const char *path, double quantile, struct err *err)
{
    double all[UNKNOWN_LIMIT];
    for (int32_t i = 0; i < UNKNOWN_LIMIT; i++)
        all[i] = quantile;
    AUTORELEASE(unknowns)
    struct unknowns unknowns = {.quantile = all, .quantile_count = UNKNOWN_LIMIT};
    AUTORELEASE(yaml) struct document *document = yaml_read_file(NULL, path, NULL, err);
    if (!document)
        return -1;
    const struct node *root = yaml_root(document);
    int failed = check_ranges(root, err) || unknowns_settle(&unknowns, document, "", err) ||
                 field_read(&price_table, root, prices, err) || check_needs(prices, root, err);
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (!failed && !prices->name)
        prices->name = base_format("%.*s", (int)strcspn(file, "."), file);
    return failed ? -1 : 0;
}

int price_read(struct price_file *file, const char *name, struct err *err)
{
    file->path = platform_find_file("../prices", "price", name, err);
    if (!file->path || read_end(&file->high, file->path, 1, err))
        return -1;
    char *warning = err->warning; /* which would be there twice */
    err->warning = NULL;
    int failed = read_end(&file->low, file->path, 0, err);
    file->origin = base_format("%s of %s (%s)", file->low.name, file->low.date, file->path);
    free(err->warning);
    err->warning = warning;
    return failed;
}

void price_check_device(const struct price_file *file, const char *device, struct err *err)
{
    const struct field_list *list = file ? &file->low.devices : &(struct field_list){0};
    AUTORELEASE(text) struct text names = {0};
    bool known = list->count == 0;
    for (int32_t i = 0; i < list->count; i++) {
        const char *name = ((char **)list->item)[i];
        known |= !strcasecmp(name, device);
        text_add(&names, "%s%s", i ? ", " : "", name);
    }
    if (!known)
        err_warn(err, "%s: warning: these numbers are of %s, not of %s, which the job has",
                 file->path, names.data, device);
}

char *price_assignment(const struct price_file *file)
{
    if (!file || !given(&file->low.mtbf))
        return NULL;
    double low = file->low.mtbf.value, high = file->high.mtbf.value;
    return low < high ? base_format("platform.node.mtbf={low: %.17g s, high: %.17g s}", low, high)
                      : base_format("platform.node.mtbf=%.17g s", low);
}

void price_release(struct price_file *file)
{
    field_release(&price_table, &file->low);
    field_release(&price_table, &file->high);
    free(file->path);
    free(file->origin);
    *file = (struct price_file){0};
}

/* ---- of several platforms ---- */

int tariffs_read(struct tariffs *tariffs, const char *const *given, int32_t count, struct err *err)
{
    tariffs->item = base_alloc(count, sizeof(*tariffs->item));
    for (int32_t i = 0; i < count; i++) {
        const char *equals = strchr(given[i], '=');
        struct tariff *tariff = &tariffs->item[tariffs->count++];
        if (equals)
            tariff->platform = strndup(given[i], (size_t)(equals - given[i]));
        if (price_read(&tariff->file, equals ? equals + 1 : given[i], err))
            return -1;
    }
    return 0;
}

/* "./mine.yaml" and "mine" are one platform. */
static bool same_platform(const char *a, const char *b)
{
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    AUTOFREE char *one = base_copy(slash_a ? slash_a + 1 : a);
    AUTOFREE char *two = base_copy(slash_b ? slash_b + 1 : b);
    char *ending[] = {strstr(one, ".yaml"), strstr(two, ".yaml")};
    for (int i = 0; i < 2; i++)
        if (ending[i])
            *ending[i] = '\0';
    return !strcasecmp(one, two);
}

/* How closely prices of @of (NULL: of all) are meant; 0: they are of others. */
static int matches(const char *of, const char *platform, const char *job)
{
    if (!of)
        return 1;
    if (!strcmp(of, platform) || (job && !strcasecmp(of, job)))
        return 3;
    return same_platform(of, platform) ? 2 : 0;
}

const struct price_file *tariffs_find(const struct tariffs *tariffs, const char *platform,
                                      const char *job)
{
    struct tariff *found = NULL;
    int best = 0;
    for (int32_t i = 0; i < tariffs->count; i++) {
        int match = matches(tariffs->item[i].platform, platform, job);
        if (match && match >= best) {
            best = match;
            found = &tariffs->item[i];
        }
    }
    if (!found)
        return NULL;
    found->used = true;
    return &found->file;
}

int tariffs_check(const struct tariffs *tariffs, struct err *err)
{
    for (int32_t i = 0; i < tariffs->count; i++)
        if (tariffs->item[i].platform && !tariffs->item[i].used)
            return err_usage(err, "--prices %s=...: nothing that is predicted is on %s",
                             tariffs->item[i].platform, tariffs->item[i].platform);
    return 0;
}

void tariffs_release(struct tariffs *tariffs)
{
    for (int32_t i = 0; i < tariffs->count; i++) {
        free(tariffs->item[i].platform);
        price_release(&tariffs->item[i].file);
    }
    free(tariffs->item);
    *tariffs = (struct tariffs){0};
}

/* ---- bills ---- */

static struct range times(struct range a, struct range b)
{
    return (struct range){a.low * b.low, a.value * b.value, a.high * b.high};
}

/* @count of what one has, between its ends. */
static struct range between(const struct quantity *low, const struct quantity *high, double count)
{
    return (struct range){count * low->value, count * (low->value + high->value) / 2,
                          count * high->value};
}

#define BETWEEN(file, member, count) between(&(file)->low.member, &(file)->high.member, count)

static struct range both(struct range a, struct range b)
{
    return (struct range){a.low + b.low, a.value + b.value, a.high + b.high};
}

/* What a node costs in an hour in which it trains, where it was bought. */
static struct range written_off(const struct price_file *file, double nodes)
{
    const struct prices *low = &file->low, *high = &file->high;
    if (!given(&low->purchase))
        return (struct range){0};
    double hours_low = low->lifetime.value * low->utilisation.value / 3600;
    double hours_high = high->lifetime.value * high->utilisation.value / 3600;
    double least = nodes * low->purchase.value / hours_high;
    double most = nodes * high->purchase.value / hours_low;
    return (struct range){least, (least + most) / 2, most};
}

struct bill price_bill(const struct price_file *file, const struct usage *usage)
{
    const struct range none = {NAN, NAN, NAN};
    struct bill bill = {.cost = none, .energy = none, .carbon = none};
    if (!file)
        return bill;
    bill.currency = file->low.currency;
    bill.origin = file->origin;
    struct range hours = times(usage->seconds, (struct range){1 / 3600.0, 1 / 3600.0, 1 / 3600.0});
    struct range rent =
        both(BETWEEN(file, node_hour, usage->nodes), BETWEEN(file, device_hour, usage->devices));
    struct range price = both(rent, written_off(file, usage->nodes));
    struct range kilowatts = both(BETWEEN(file, node_power, usage->nodes / 1000),
                                  BETWEEN(file, device_power, usage->devices / 1000));
    struct range drawn = times(BETWEEN(file, share, 1), BETWEEN(file, pue, 1));
    if (file->low.currency)
        bill.cost = times(price, hours);
    if (given(&file->low.share))
        bill.energy = times(times(kilowatts, drawn), hours);
    if (given(&file->low.carbon))
        bill.carbon = times(bill.energy, BETWEEN(file, carbon, 3.6e6));
    return bill;
}

SHARED_COLUMNS(bill_columns, NULL, struct bill)
{
    COLUMN("cost", cost, .null = true, .help = "at the prices; bounds with the ends of all ranges");
    COLUMN("energy_kwh", energy, .null = true, .help = "of devices and nodes, with PUE");
    COLUMN("carbon_kg", carbon, .null = true, .help = "CO2 equivalent of the energy");
    COLUMN("currency", currency, .null = true, .help = "of the cost");
    COLUMN("prices", origin, .null = true, .help = "price file: name, date, path; null: no prices");
}

static void print_amount(struct text *out, const char *label, struct range range, const char *unit)
{
    if (isnan(range.value))
        return;
    AUTORELEASE(text) struct text value = {0};
    text_add(&value, "%s %s",
             unit_likely(UNIT_NONE, range.value, range.value, range.low, range.high), unit);
    text_add(out, "  %-24s%16s\n", label, value.data);
    if (!isnan(range.low))
        text_add(out, "  %-24s%16s to %s %s\n", "  bounds",
                 unit_likely(UNIT_NONE, range.low, range.value, range.low, range.high),
                 unit_likely(UNIT_NONE, range.high, range.value, range.low, range.high), unit);
}

void bill_print(struct text *out, const struct bill *bill)
{
    if (!bill->origin)
        return;
    print_amount(out, "cost", bill->cost, bill->currency);
    print_amount(out, "energy", bill->energy, "kWh");
    print_amount(out, "carbon", bill->carbon, "kg");
    text_add(out, "  %-24s%s\n", "prices", bill->origin);
}
