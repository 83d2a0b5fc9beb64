#include "exec/cpu/sequence.h"

#include "core/base/base.h"
#include "core/base/random.h"
#include "exec/cpu/ops_naive.h"
#include "exec/step/vectors.h"

enum {
    STRIPE = 128,   /* features of a thread, in sums over positions */
    STRETCH = 4096, /* values that a thread works on at a time */
    BLOCK = 256     /* queries of a head whose scores lie in memory at a time */
};

#define NORM_EPSILON 1e-5
#define ROTARY_BASE  10000.0
#define DROPPED      0.1         /* Vaswani et al. 2017, section 5.4; Radford et al. 2019 */
#define NORMAL_PEAK  0.39894228F /* density of the normal distribution at 0 */

typedef const struct sequence job;

static int64_t features(job *s)
{
    return s->layer->out.channels;
}

static int64_t positions(job *s)
{
    return s->images * s->layer->out.height * s->layer->out.width;
}

static int64_t values(job *s)
{
    return s->images * shape_elements(s->layer->out);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void sequence_multiply(struct device_state *state, const struct product *p)
{
    (void)state;
    int64_t along_a = p->across_a ? p->next_a : 1, down_a = p->across_a ? 1 : p->next_a;
    int64_t along_b = p->across_b ? 1 : p->next_b, right_b = p->across_b ? p->next_b : 1;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->columns; j++) {
            double sum = 0;
            const float *a = p->a + i * down_a, *b = p->b + j * right_b;
            for (int64_t k = 0; k < p->inner; k++)
                sum += (double)a[k * along_a] * (double)b[k * along_b];
            float *c = &p->c[i * p->next_c + j];
            *c = (p->writes ? 0 : *c) + (float)((double)p->scale * sum);
        }
}

/* ---- tables and sums ---- */

/* Add the sum of @value (rows, out) over rows, times @factor (the same shape; NULL: 1). */
static void add_columns(int64_t rows, int64_t out, const float *value, const float *factor,
                        float *sum)
{
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < out; first += STRIPE) {
        double part[STRIPE] = {0};
        int64_t count = smaller(STRIPE, out - first);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < count; c++) {
                int64_t at = i * out + first + c;
                part[c] += (double)value[at] * (factor ? (double)factor[at] : 1);
            }
        for (int64_t c = 0; c < count; c++)
            sum[first + c] += (float)part[c];
    }
}

/* The row of the token at position @i of all; -1: another rank has it. */
static int64_t row_of(job *s, int64_t i)
{
    int64_t row = (int64_t)s->x[0][i] - s->first;
    return row >= 0 && row < s->layer->rows ? row : -1;
}

static void embedding(job *s)
{
    int64_t out = features(s), rows = positions(s);
    size_t bytes = (size_t)out * sizeof(float);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++)
        if (row_of(s, i) >= 0)
            memcpy(s->y + i * out, s->w + row_of(s, i) * out, bytes);
        else
            memset(s->y + i * out, 0, bytes);
}

static void embedding_backward(job *s)
{
    int64_t out = features(s), rows = positions(s);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < out; first += STRIPE)
        for (int64_t i = 0; i < rows; i++) {
            float *row = s->dw + row_of(s, i) * out;
            for (int64_t c = first; row_of(s, i) >= 0 && c < smaller(first + STRIPE, out); c++)
                row[c] += s->dy[i * out + c];
        }
}

/* Of two inputs, or of one and a row of a table for each position. */
static void add(job *s)
{
    int64_t count = values(s), first = s->at * features(s), each = s->length * features(s);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        s->y[i] = s->x[0][i] + (s->x[1] ? s->x[1][i] : s->w[(first + i) % each]);
}

static void add_backward(job *s)
{
    for (int32_t i = 0; i < 2; i++)
        if (s->dx[i])
            naive_add(values(s), s->dy, s->dx[i]);
    int64_t count = s->dw ? values(s) : 0, out = features(s);
    for (int64_t i = 0; i < count; i += out)
        naive_add(out, s->dy + i, s->dw + (s->at + i / out) % s->length * out);
}

/* ---- at each value ---- */

/* Write the function to @to or, with the gradient @dy, add to that of @from. */
EVERY_WIDTH static void gelu_stretch(int64_t count, const float *restrict from, const float *dy,
                                     float *restrict to)
{
    const int64_t back =
        dy ? count : 0; /* one loop's masked load of no address took 8 times as long */
    float bell;
#pragma omp simd private(bell)
    for (int64_t i = back; i < count; i++)
        to[i] = from[i] * vectors_normal(from[i], &bell);
#pragma omp simd private(bell)
    for (int64_t i = 0; i < back; i++) {
        float below = vectors_normal(from[i], &bell);
        to[i] += (below + from[i] * NORMAL_PEAK * bell) * dy[i];
    }
}

static void gelu(job *s)
{
    int64_t count = values(s);
    const float *dy = s->back ? s->dy : NULL;
    float *to = s->back ? s->dx[0] : s->y;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i += STRETCH)
        gelu_stretch(smaller(STRETCH, count - i), s->x[0] + i, dy ? dy + i : NULL, to + i);
}

static double hard(double x)
{
    return fmin(fmax(x + 3, 0), 6) / 6;
}

static double slope_of(enum gate_kind gate, double x)
{
    double soft = 1 / (1 + exp(-x)), inside = x > -3 && x < 3;
    switch (gate) {
    case GATE_SILU:
        return soft * (1 + x * (1 - soft));
    case GATE_SIGMOID:
        return soft * (1 - soft);
    case GATE_HARD_SWISH:
        return hard(x) + inside * x / 6;
    default:
        return inside / 6;
    }
}

static void silu(job *s)
{
    int64_t count = values(s);
    enum gate_kind gate = s->layer->gate;
    bool soft = gate == GATE_SILU || gate == GATE_SIGMOID;
    bool alone = gate == GATE_SIGMOID || gate == GATE_HARD_SIGMOID;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) {
        float x = s->x[0][i], factor = alone ? 1 : x;
        if (s->back)
            s->dx[0][i] += (float)((double)s->dy[i] * slope_of(gate, (double)x));
        else
            s->y[i] = soft ? factor / (1 + expf(-x)) : (float)((double)factor * hard((double)x));
    }
}

/* Of the second input, which may have one value for all positions of an image. */
static int64_t factor_at(job *s, int64_t i)
{
    int64_t each = shape_elements(s->layer->out), out = features(s);
    return s->spread ? i / each * out + i % out : i;
}

static void multiply(job *s)
{
    int64_t count = values(s);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        s->y[i] = s->x[0][i] * s->x[1][factor_at(s, i)];
}

static void multiply_backward(job *s)
{
    int64_t count = values(s), each = shape_elements(s->layer->out), out = features(s);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) {
        s->dx[0][i] += s->dy[i] * s->x[1][factor_at(s, i)];
        if (!s->spread)
            s->dx[1][i] += s->dy[i] * s->x[0][i];
    }
    for (int64_t n = 0; n < s->images && s->spread; n++)
        add_columns(each / out, out, s->dy + n * each, s->x[0] + n * each, s->dx[1] + n * out);
}

/* Write the input without what is dropped, or add such a gradient. */
static void dropout(job *s)
{
    int64_t each = shape_elements(s->layer->out);
    uint64_t key = random_key(s->draw.seed, s->draw.step, s->draw.layer);
    float kept = s->draw.each ? (float)(1 / (1 - DROPPED)) : 1;
    const float *from = s->back ? s->dy : s->x[0];
    float *to = s->back ? s->dx[0] : s->y;
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < s->images; n++)
        for (int64_t i = 0; i < each; i++) {
            uint64_t number = (uint64_t)(s->draw.first + n * s->draw.each + i);
            bool drops = s->draw.each && random_counted(key, number) < DROPPED;
            float value = drops ? 0 : kept * from[n * each + i];
            to[n * each + i] = s->back ? to[n * each + i] + value : value;
        }
}

/* Each pair of features (i, i + half of a head) is turned by an angle that grows with the position;
 * gradients are turned back. */
static void rotary(job *s)
{
    int64_t out = features(s), rows = positions(s), each = s->layer->inner, half = each / 2;
    const float *from = s->back ? s->dy : s->x[0];
    float *to = s->back ? s->dx[0] : s->y;
    if (!s->back)
        naive_clear(values(s), s->y);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < half; c++) {
            double place = (double)(i % s->layer->out.width);
            double angle = place * pow(ROTARY_BASE, -(double)c / (double)half);
            double cosine = cos(angle), sine = s->back ? -sin(angle) : sin(angle);
            for (int64_t a = i * out + c, b; a < (i + 1) * out; a += each) {
                b = a + half;
                to[a] += (float)((double)from[a] * cosine - (double)from[b] * sine);
                to[b] += (float)((double)from[b] * cosine + (double)from[a] * sine);
            }
        }
}

/* ---- positions ---- */

/* A trained position, then those of the input. */
static void token(job *s)
{
    int64_t out = features(s), each = shape_elements(s->layer->out), rest = each - out;
    for (int64_t n = 0; n < s->images; n++) {
        if (s->back && s->dw)
            naive_add(out, s->dy + n * each, s->dw);
        if (s->back) {
            naive_add(rest, s->dy + n * each + out, s->dx[0] + n * rest);
            continue;
        }
        memcpy(s->y + n * each, s->w, (size_t)out * sizeof(float));
        memcpy(s->y + n * each + out, s->x[0] + n * rest, (size_t)rest * sizeof(float));
    }
}

static void scale(job *s)
{
    int64_t count = values(s), out = features(s);
    const float *from = s->back ? s->dy : s->x[0];
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        if (s->back)
            s->dx[0][i] += from[i] * s->w[i % out];
        else
            s->y[i] = from[i] * s->w[i % out];
    if (s->dw)
        add_columns(positions(s), out, s->dy, s->x[0], s->dw);
}

static void other(job *s)
{
    enum attends attends = s->layer->attends;
    (attends == ATTENDS_SCALE ? scale : attends == ATTENDS_TOKEN ? token : rotary)(s);
}

static void first(job *s)
{
    int64_t out = features(s), each = shape_elements(s->layer->in);
    for (int64_t n = 0; n < s->images; n++)
        if (s->back)
            naive_add(out, s->dy + n * out, s->dx[0] + n * each);
        else
            memcpy(s->y + n * out, s->x[0] + n * each, (size_t)out * sizeof(float));
}

/* ---- norms ---- */

/* Saved: the normalised values, then 1 / deviation of each position; RMS norm has no mean and no
 * biases. */
static void layer_norm(job *s)
{
    int64_t out = features(s), rows = positions(s);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *x = s->x[0] + i * out;
        float *n = s->saved + i * out;
        double sum = 0, square = 0;
        for (int64_t c = 0; c < out; c++)
            sum += (double)x[c];
        double mean = s->layer->op == LAYER_RMS_NORM ? 0 : sum / (double)out;
        for (int64_t c = 0; c < out; c++)
            square += ((double)x[c] - mean) * ((double)x[c] - mean);
        double inverse = 1 / sqrt(square / (double)out + NORM_EPSILON);
        for (int64_t c = 0; c < out; c++) {
            n[c] = (float)(((double)x[c] - mean) * inverse);
            s->y[i * out + c] = n[c] * s->w[c] + (s->b ? s->b[c] : 0);
        }
        s->saved[rows * out + i] = (float)inverse;
    }
}

/* With n the normalised values and g = dy * w: dx = (g - mean(g) - n * mean(g * n)) / deviation. */
static void layer_norm_backward(job *s)
{
    int64_t out = features(s), rows = positions(s);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *n = s->saved + i * out, *dy = s->dy + i * out;
        double sum = 0, along = 0, inverse = (double)s->saved[rows * out + i];
        for (int64_t c = 0; c < out; c++) {
            double g = (double)dy[c] * (double)s->w[c];
            sum += g;
            along += g * (double)n[c];
        }
        sum = s->layer->op == LAYER_RMS_NORM ? 0 : sum;
        for (int64_t c = 0; c < out; c++)
            s->dx[0][i * out + c] +=
                (float)(inverse * ((double)dy[c] * (double)s->w[c] - sum / (double)out -
                                   (double)n[c] * along / (double)out));
    }
    add_columns(rows, out, s->dy, s->saved, s->dw);
    if (s->db)
        add_columns(rows, out, s->dy, NULL, s->db);
}

/* ---- products of matrices: at each position with weights, and attention ---- */

/* Heads of queries, and the features of one; as many as sharing() share one head of keys. */
static int64_t heads_of(job *s)
{
    return s->layer->attends == ATTENDS_SCORES ? s->layer->out.channels : s->layer->in.channels;
}

static int64_t each_of(job *s)
{
    return s->layer->attends == ATTENDS_SCORES ? s->layer->inner : features(s) / heads_of(s);
}

static int64_t sharing(job *s)
{
    return heads_of(s) * each_of(s) / s->features;
}

/* Of head @head of image @image: queries times keys, both (positions, features of all heads). */
static struct product scores_of(job *s, int64_t image, int64_t head)
{
    int64_t length = s->layer->out.width, heads = heads_of(s), each = each_of(s);
    int64_t next_q = heads * each, next_k = heads / sharing(s) * each;
    return (struct product){.across_b = true,
                            .rows = length,
                            .columns = length,
                            .inner = each,
                            .scale = (float)(1 / sqrt((double)each)),
                            .a = s->x[0] + image * length * next_q + head * each,
                            .b = s->x[1] + image * length * next_k + head / sharing(s) * each,
                            .c = s->y + (image * heads + head) * length * length,
                            .next_a = next_q,
                            .next_b = next_k,
                            .next_c = length};
}

/* Weights of keys times values. */
static struct product context_of(job *s, int64_t image, int64_t head)
{
    int64_t length = s->layer->out.width, heads = heads_of(s), each = each_of(s);
    int64_t next_y = heads * each, next_v = heads / sharing(s) * each;
    return (struct product){.rows = length,
                            .columns = each,
                            .inner = length,
                            .scale = 1,
                            .a = s->x[0] + (image * heads + head) * length * length,
                            .b = s->x[1] + image * length * next_v + head / sharing(s) * each,
                            .c = s->y + image * length * next_y + head * each,
                            .next_a = length,
                            .next_b = next_v,
                            .next_c = next_y};
}

/* Of all positions, with weights. */
static struct product dense_of(job *s)
{
    int64_t out = features(s), in = s->layer->in.channels;
    return (struct product){.across_b = true,
                            .rows = positions(s),
                            .columns = out,
                            .inner = in,
                            .scale = 1,
                            .a = s->x[0],
                            .b = s->w,
                            .c = s->y,
                            .next_a = in,
                            .next_b = in,
                            .next_c = out,
                            .owner = s->owner + 1};
}

/* Of a block of queries, the scores of which lie by themselves, that part. */
static struct product product_of(job *s, int64_t image, int64_t head)
{
    bool scores = s->layer->attends == ATTENDS_SCORES;
    struct product p = s->layer->op != LAYER_MATMUL
                           ? dense_of(s)
                           : (scores ? scores_of : context_of)(s, image, head);
    if (s->rows == 0)
        return p;
    p.rows = s->rows;
    *(scores ? &p.columns : &p.inner) = s->keys;
    p.a = scores ? p.a + s->query * p.next_a : s->x[0];
    p.c = scores ? s->y : p.c + s->query * p.next_c;
    return p;
}

/* For the gradients of both factors of @p.  Of c = a * b: dc times b across, and a across times dc;
 * of c = a times b across: dc * b, and dc across times a. */
static void products_back(job *s, const struct product *p, struct product *da, struct product *db)
{
    const float *dc = s->dy + (p->c - s->y);
    *da = (struct product){.across_b = !p->across_b,
                           .rows = p->rows,
                           .columns = p->inner,
                           .inner = p->columns,
                           .scale = p->scale,
                           .a = dc,
                           .b = p->b,
                           .c = s->dx[0] ? s->dx[0] + (p->a - s->x[0]) : NULL,
                           .next_a = p->next_c,
                           .next_b = p->next_b,
                           .next_c = p->next_a,
                           .writes = s->fresh,
                           .owner = p->owner};
    *db = (struct product){.across_a = true,
                           .writes = s->fresh,
                           .again = s->again,
                           .rows = p->across_b ? p->columns : p->inner,
                           .columns = p->across_b ? p->inner : p->columns,
                           .inner = p->rows,
                           .scale = p->scale,
                           .a = p->across_b ? dc : p->a,
                           .b = p->across_b ? p->a : dc,
                           .c = p->owner ? s->dw : s->dx[1] + (p->b - s->x[1]),
                           .next_a = p->across_b ? p->next_c : p->next_a,
                           .next_b = p->across_b ? p->next_a : p->next_c,
                           .next_c = p->next_b};
}

/* The product of a head, or going back, the gradients of its factors that are wanted. */
static void multiply_head(job *s, int64_t image, int64_t head)
{
    struct product p = product_of(s, image, head), da, db;
    if (!s->back) {
        p.writes = !s->b;
        s->multiply(s->state, &p);
        return;
    }
    products_back(s, &p, &da, &db);
    if (da.c)
        s->multiply(s->state, &da);
    if (db.c)
        s->multiply(s->state, &db);
}

static void dense(job *s)
{
    int64_t out = features(s), rows = positions(s);
    size_t row = (size_t)out * sizeof(float);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < (s->b ? rows : 0); i++)
        memcpy(s->y + i * out, s->b, row);
    multiply_head(s, 0, 0);
}

static void dense_backward(job *s)
{
    multiply_head(s, 0, 0);
    if (s->db)
        add_columns(positions(s), features(s), s->dy, NULL, s->db);
}

/* Run the layers from the scores of attention to @s, its last, with the queries of a block from
 * @query on; going back, all but the last once more before.  @room: (BLOCK, positions) for the
 * value of each but the last, and for its gradient. */
static void attend(job *s, int64_t image, int64_t head, int64_t query, float *room)
{
    struct sequence part[SEQUENCE_ATTENDS];
    struct layer layer[SEQUENCE_ATTENDS];
    int64_t length = s->layer->out.width, rows = smaller(BLOCK, length - query), keys = length;
    int32_t count = 0;
    for (job *from = s; from; from = from->before, count++) {
        struct sequence *own = &part[count];
        layer[count] = *from->layer;
        *own = *from;
        own->layer = &layer[count];
        own->query = query;
        own->rows = rows;
        if (from->layer->attends == ATTENDS_BEFORE)
            keys = query + rows;
        if (count > 0) {
            own->y = room;
            own->dy = own[-1].dx[0] = room + BLOCK * length;
            own[-1].x[0] = room;
            naive_clear(from->before ? 0 : rows * length, own->y);
            naive_clear(s->back ? rows * length : 0, own[-1].dx[0]);
            room += 2 * BLOCK * length;
        }
        if (from->layer->op == LAYER_MATMUL)
            continue;
        layer[count].out = (struct shape){1, (int32_t)rows, (int32_t)length};
        own->images = 1;
        own->draw.first += image * own->draw.each + (head * length + query) * length;
    }
    part[0].keys = part[count - 1].keys = keys;
    for (int32_t turn = 0; turn < (s->back ? 2 : 1); turn++)
        for (int32_t i = 0; i < count; i++) {
            struct sequence *own = &part[turn ? i : count - 1 - i];
            own->back = turn;
            if (own->layer->op != LAYER_MATMUL)
                sequence_run(own);
            else if (turn || !s->back || own != part)
                multiply_head(own, image, head);
        }
}

/* Heads that share one of keys add to the same gradients, so one thread has them. */
static void products(job *s)
{
    int64_t shared = sharing(s), groups = heads_of(s) / shared, count = s->images * groups;
    int64_t size = sequence_room(s->layer->out.width), blocks = 1;
    if (s->before)
        blocks = (s->layer->out.width + BLOCK - 1) / BLOCK;
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < s->threads; t++)
        for (int64_t i = count * t / s->threads * shared * blocks;
             i < count * (t + 1) / s->threads * shared * blocks; i++) {
            int64_t head = i / blocks;
            if (s->before)
                attend(s, head / heads_of(s), head % heads_of(s), i % blocks * BLOCK,
                       s->room + t * size);
            else
                multiply_head(s, head / heads_of(s), head % heads_of(s));
        }
}

/* Keys that query @row of all rows sees. */
static int64_t seen(job *s, int64_t row)
{
    struct shape out = s->layer->out;
    return s->layer->attends == ATTENDS_BEFORE ? s->query + row % out.height + 1 : out.width;
}

static void softmax(job *s)
{
    int64_t length = s->layer->out.width, rows = values(s) / length;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        float *y = s->y + i * length, largest;
        int64_t count = seen(s, i);
        double sum = naive_terms(count, s->x[0] + i * length, &largest, y);
        for (int64_t k = 0; k < count; k++)
            y[k] = (float)((double)y[k] / sum);
        memset(y + count, 0, (size_t)(length - count) * sizeof(float));
    }
}

static void softmax_backward(job *s)
{
    int64_t length = s->layer->out.width, rows = values(s) / length;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *y = s->y + i * length, *dy = s->dy + i * length;
        float *dx = s->dx[0] + i * length;
        int64_t count = seen(s, i);
        double along = 0;
        for (int64_t k = 0; k < count; k++)
            along += (double)dy[k] * (double)y[k];
        for (int64_t k = 0; k < count; k++)
            dx[k] += (float)((double)y[k] * ((double)dy[k] - along));
    }
}

/* ---- the table ---- */

static const struct kind {
    void (*forward)(job *), (*backward)(job *);
} kinds[LAYER_OP_COUNT] = {
    [LAYER_CONVOLUTION] = {dense, dense_backward},
    [LAYER_EMBEDDING] = {embedding, embedding_backward},
    [LAYER_ADD] = {add, add_backward},
    [LAYER_GELU] = {gelu, gelu},
    [LAYER_DROPOUT] = {dropout, dropout},
    [LAYER_SILU] = {silu, silu},
    [LAYER_MULTIPLY] = {multiply, multiply_backward},
    [LAYER_PERMUTE] = {first, first},
    [LAYER_OTHER] = {other, other},
    [LAYER_LAYER_NORM] = {layer_norm, layer_norm_backward},
    [LAYER_RMS_NORM] = {layer_norm, layer_norm_backward},
    [LAYER_MATMUL] = {products, products},
    [LAYER_SOFTMAX] = {softmax, softmax_backward},
};

bool sequence_takes(const struct layer *layer)
{
    return kinds[layer->op].forward && (layer->op != LAYER_CONVOLUTION || layer_is_dense(layer));
}

int64_t sequence_saved(const struct layer *layer)
{
    return layer->op == LAYER_LAYER_NORM || layer->op == LAYER_RMS_NORM
               ? shape_elements(layer->out) + layer->out.height * (int64_t)layer->out.width
               : 0;
}

int64_t sequence_room(int64_t positions)
{
    return 2 * (SEQUENCE_ATTENDS - 1) * BLOCK * positions;
}

int32_t sequence_products(const struct sequence *s, struct product product[PASS_COUNT])
{
    if (s->layer->op != LAYER_MATMUL && !layer_is_dense(s->layer))
        return 0;
    static float nothing;
    struct sequence own = *s;
    own.x[0] = own.x[1] = own.dy = own.y = own.dx[0] = own.dx[1] = &nothing;
    product[PASS_FORWARD] = product_of(&own, 0, 0);
    products_back(&own, &product[PASS_FORWARD], &product[PASS_BACKWARD_DATA],
                  &product[PASS_BACKWARD_FILTER]);
    return PASS_COUNT;
}

void sequence_run(const struct sequence *s)
{
    assert(sequence_takes(s->layer));
    (s->back ? kinds[s->layer->op].backward : kinds[s->layer->op].forward)(s);
}
