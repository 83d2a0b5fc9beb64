#include "exec/cpu/ops_naive.h"

#include "core/schedule/iteration.h"
#include "exec/step/vectors.h"

/* One weight of a convolution meets one row of its input and of its output. */
struct tap {
    int64_t x, w, y;       /* first elements */
    int32_t count, stride; /* `count` outputs; inputs lie `stride` apart */
};

struct arrays {
    float *x, *w, *y;
};

typedef void tap_visitor(const struct arrays *arrays, const struct tap *tap);

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Outputs first ... end - 1 of `out` have their input at index * stride + shift within `in`. */
static void valid_range(int32_t in, int32_t out, int32_t stride, int32_t shift, int32_t *first,
                        int32_t *end)
{
    *first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    *end = shift < in ? smaller(out, (in - shift - 1) / stride + 1) : 0;
}

static void visit_plane(const struct layer *l, struct tap tap, const struct arrays *arrays,
                        tap_visitor *visit)
{
    struct tap row = {.w = tap.w, .stride = l->stride};
    for (int32_t i = 0; i < l->kernel * l->kernel; i++, row.w++) {
        int32_t down = i / l->kernel - l->padding, right = i % l->kernel - l->padding;
        int32_t top, bottom, left, end;
        valid_range(l->in.height, l->out.height, l->stride, down, &top, &bottom);
        valid_range(l->in.width, l->out.width, l->stride, right, &left, &end);
        row.count = end - left;
        for (int32_t h = top; h < bottom && row.count > 0; h++) {
            row.y = tap.y + h * l->out.width + left;
            row.x = tap.x + (h * l->stride + down) * l->in.width + left * l->stride + right;
            visit(arrays, &row);
        }
    }
}

/* The one loop nest of all three convolutions. */
static void visit_taps(const struct layer *l, int32_t batch, struct arrays arrays,
                       tap_visitor *visit)
{
    int64_t in = (int64_t)l->in.height * l->in.width, out = (int64_t)l->out.height * l->out.width;
    int64_t kernel = (int64_t)l->kernel * l->kernel;
    int64_t groups = l->groups > 1 ? l->groups : 1, each = l->in.channels / groups;
    for (int64_t image = 0; image < batch; image++)
        for (int64_t o = 0; o < l->out.channels; o++)
            for (int64_t i = 0; i < each; i++) {
                int64_t from = o * groups / l->out.channels * each + i;
                struct tap tap = {.x = (image * l->in.channels + from) * in,
                                  .w = (o * each + i) * kernel,
                                  .y = (image * l->out.channels + o) * out};
                visit_plane(l, tap, &arrays, visit);
            }
}

static void tap_forward(const struct arrays *a, const struct tap *tap)
{
    const float *x = a->x + tap->x, w = a->w[tap->w];
    float *y = a->y + tap->y;
    for (int32_t i = 0; i < tap->count; i++)
        y[i] += w * x[i * tap->stride];
}

static void tap_backward_data(const struct arrays *a, const struct tap *tap)
{
    const float *y = a->y + tap->y, w = a->w[tap->w];
    float *x = a->x + tap->x;
    for (int32_t i = 0; i < tap->count; i++)
        x[i * tap->stride] += w * y[i];
}

static void tap_backward_filter(const struct arrays *a, const struct tap *tap)
{
    const float *x = a->x + tap->x, *y = a->y + tap->y;
    float sum = 0;
    for (int32_t i = 0; i < tap->count; i++)
        sum += x[i * tap->stride] * y[i];
    a->w[tap->w] += sum;
}

/* A linear layer is a convolution whose kernel covers the whole image, flattened. */
static struct layer as_convolution(const struct layer *layer)
{
    struct layer l = *layer;
    assert(l.op == LAYER_CONVOLUTION || l.op == LAYER_LINEAR);
    if (l.op == LAYER_LINEAR) {
        l.in = (struct shape){(int32_t)shape_elements(layer->in), 1, 1};
        l.kernel = l.stride = 1;
        l.padding = 0;
    }
    return l;
}

void naive_clear(int64_t count, float *y)
{
    enum { STRETCH = 4096 };
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i += STRETCH)
        memset(y + i, 0, (size_t)(count - i < STRETCH ? count - i : STRETCH) * sizeof(*y));
}

void naive_forward(const struct layer *layer, int32_t batch, const float *x, const float *w,
                   float *y)
{
    struct layer l = as_convolution(layer);
    const float *bias = w + layer_weights(&l);
    int64_t plane = (int64_t)l.out.height * l.out.width, planes = (int64_t)batch * l.out.channels;
    for (int64_t i = 0; i < planes * plane; i++)
        y[i] = l.bias ? bias[i / plane % l.out.channels] : 0;
    visit_taps(&l, batch, (struct arrays){(float *)x, (float *)w, y}, tap_forward);
}

void naive_backward_data(const struct layer *layer, int32_t batch, const float *w, const float *dy,
                         float *dx)
{
    struct layer l = as_convolution(layer);
    naive_clear(batch * shape_elements(l.in), dx);
    visit_taps(&l, batch, (struct arrays){dx, (float *)w, (float *)dy}, tap_backward_data);
}

void naive_backward_filter(const struct layer *layer, int32_t batch, const float *x,
                           const float *dy, float *dw)
{
    struct layer l = as_convolution(layer);
    float *bias = dw + layer_weights(&l);
    int64_t plane = (int64_t)l.out.height * l.out.width, planes = (int64_t)batch * l.out.channels;
    naive_clear(layer_weights(&l) + (l.bias ? l.out.channels : 0), dw);
    visit_taps(&l, batch, (struct arrays){(float *)x, dw, (float *)dy}, tap_backward_filter);
    for (int64_t i = 0; l.bias && i < planes * plane; i++)
        bias[i / plane % l.out.channels] += dy[i];
}

/* Of channel @c: sum of a and of a * b over batch and plane. */
static void channel_sums(const struct layer *l, int32_t batch, int32_t c, const float *a,
                         const float *b, double *sum, double *product)
{
    int64_t plane = (int64_t)l->out.height * l->out.width;
    *sum = *product = 0;
    for (int64_t image = 0; image < batch; image++) {
        int64_t first = (image * l->out.channels + c) * plane;
        for (int64_t i = first; i < first + plane; i++) {
            *sum += (double)a[i];
            *product += (double)a[i] * (double)b[i];
        }
    }
}

/* y = scale * a + by * b + shift on channel @c. */
static void channel_combine(const struct layer *l, int32_t batch, int32_t c, double scale,
                            const float *a, double by, const float *b, double shift, float *y)
{
    int64_t plane = (int64_t)l->out.height * l->out.width;
    for (int64_t image = 0; image < batch; image++) {
        int64_t first = (image * l->out.channels + c) * plane;
        for (int64_t i = first; i < first + plane; i++)
            y[i] = (float)(scale * (double)a[i] + by * (double)b[i] + shift);
    }
}

void naive_batch_norm(const struct layer *layer, int32_t batch, double epsilon, const float *x,
                      const float *w, float *statistics, float *y)
{
    int32_t channels = layer->out.channels;
    double count = (double)batch * layer->out.height * layer->out.width;
    for (int32_t c = 0; c < channels; c++) {
        double sum, square;
        channel_sums(layer, batch, c, x, x, &sum, &square);
        double mean = sum / count, variance = square / count - mean * mean;
        double inverse = 1 / sqrt(fmax(variance, 0) + epsilon), scale = (double)w[c] * inverse;
        statistics[c] = (float)mean;
        statistics[channels + c] = (float)inverse;
        channel_combine(layer, batch, c, scale, x, 0, x, (double)w[channels + c] - scale * mean, y);
    }
}

/* With n = (x - mean) / deviation: dx = w / deviation * (dy - mean(dy) - n * mean(dy * n)). */
void naive_batch_norm_backward(const struct layer *layer, int32_t batch, const float *x,
                               const float *w, const float *statistics, const float *dy, float *dx,
                               float *dw)
{
    int32_t channels = layer->out.channels;
    double count = (double)batch * layer->out.height * layer->out.width;
    for (int32_t c = 0; c < channels; c++) {
        double mean = (double)statistics[c], inverse = (double)statistics[channels + c];
        double sum, product;
        channel_sums(layer, batch, c, dy, x, &sum, &product);
        double along = (product - mean * sum) * inverse; /* sum of dy * n */
        double scale = (double)w[c] * inverse, slope = scale * inverse * along / count;
        dw[c] = (float)along;
        dw[channels + c] = (float)sum;
        channel_combine(layer, batch, c, scale, dy, -slope, x, slope * mean - scale * sum / count,
                        dx);
    }
}

/* The part of plane @x under an output, without padding. */
struct window {
    int32_t top, bottom, left, right;
};

static struct window pool_window(const struct layer *l, int64_t output)
{
    int32_t h = (int32_t)(output / l->out.width) * l->stride - l->padding;
    int32_t w = (int32_t)(output % l->out.width) * l->stride - l->padding;
    return (struct window){.top = h < 0 ? 0 : h,
                           .bottom = smaller(h + l->kernel, l->in.height),
                           .left = w < 0 ? 0 : w,
                           .right = smaller(w + l->kernel, l->in.width)};
}

static int64_t window_maximum(const struct layer *l, struct window window, const float *x)
{
    int64_t best = (int64_t)window.top * l->in.width + window.left;
    for (int64_t h = window.top; h < window.bottom; h++)
        for (int64_t i = h * l->in.width + window.left; i < h * l->in.width + window.right; i++)
            if (x[i] > x[best])
                best = i;
    return best;
}

static int32_t window_size(struct window window)
{
    return (window.bottom - window.top) * (window.right - window.left);
}

static float window_average(const struct layer *l, struct window window, const float *x)
{
    double sum = 0;
    for (int32_t h = window.top; h < window.bottom; h++)
        for (int32_t w = window.left; w < window.right; w++)
            sum += (double)x[h * l->in.width + w];
    return (float)(sum / window_size(window));
}

static void window_spread(const struct layer *l, struct window window, float dy, float *dx)
{
    for (int32_t h = window.top; h < window.bottom; h++)
        for (int32_t w = window.left; w < window.right; w++)
            dx[h * l->in.width + w] += dy / (float)window_size(window);
}

void naive_pool(const struct layer *l, int32_t batch, const float *x, float *y)
{
    int64_t in = (int64_t)l->in.height * l->in.width, out = (int64_t)l->out.height * l->out.width;
    for (int64_t i = 0; i < batch * l->out.channels * out; i++) {
        const float *plane = x + i / out * in;
        struct window window = pool_window(l, i % out);
        y[i] = l->op == LAYER_MAX_POOL ? plane[window_maximum(l, window, plane)]
                                       : window_average(l, window, plane);
    }
}

void naive_pool_backward(const struct layer *l, int32_t batch, const float *x, const float *dy,
                         float *dx)
{
    int64_t in = (int64_t)l->in.height * l->in.width, out = (int64_t)l->out.height * l->out.width;
    naive_clear(batch * shape_elements(l->in), dx);
    for (int64_t i = 0; i < batch * l->out.channels * out; i++) {
        int64_t plane = i / out * in;
        struct window window = pool_window(l, i % out);
        if (l->op == LAYER_MAX_POOL)
            dx[plane + window_maximum(l, window, x + plane)] += dy[i];
        else
            window_spread(l, window, dy[i], dx + plane);
    }
}

void naive_relu(int64_t count, float top, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = fminf(fmaxf(y[i], 0), top);
}

void naive_relu_backward(int64_t count, float top, const float *y, float *dy)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < count; i++)
        dy[i] = y[i] <= 0 || y[i] >= top ? 0 : dy[i];
}

EVERY_WIDTH double naive_terms(int64_t count, const float *restrict x, float *restrict largest,
                               float *restrict term)
{
    enum { LANES = 16 };
    double lane[LANES] = {0}, sum = 0;
    float most[LANES], top = x[0];
    int64_t whole = count / LANES * LANES;
    for (int64_t l = 0; l < LANES; l++)
        most[l] = top;
    for (int64_t i = 0; i < whole; i += LANES)
#pragma omp simd
        for (int64_t l = 0; l < LANES; l++)
            most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
    for (int64_t l = 0; l < LANES; l++)
        top = most[l] > top ? most[l] : top;
    for (int64_t i = whole; i < count; i++)
        top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t width = count - i < LANES ? count - i : LANES;
        float e[LANES] = {0};
        for (int64_t l = 0; l < width; l++)
            e[l] = x[i + l] - top;
#pragma omp simd
        for (int64_t l = 0; l < LANES; l++)
            e[l] = vectors_exp(e[l]);
        for (int64_t l = 0; l < width; l++) {
            lane[l] += (double)e[l];
            term[i + l] = e[l];
        }
    }
    for (int64_t l = 0; l < LANES; l++)
        sum += lane[l];
    *largest = top;
    return sum;
}

void naive_loss_sums(const struct some_scores *scores, float *sums)
{
#pragma omp parallel for schedule(static)
    for (int32_t row = 0; row < scores->rows; row++) {
        const float *x = scores->x + (int64_t)row * scores->columns;
        int32_t wanted = scores->label[row] - scores->first;
        float largest = -INFINITY;
        double sum = 0, all = 0;
        for (int32_t i = 0; i < scores->count; i++)
            largest = fmaxf(largest, x[i]);
        for (int32_t i = 0; i < scores->count; i++) {
            sum += exp((double)x[i] - (double)largest);
            all += (double)x[i];
        }
        float *to = sums + (int64_t)row * LOSS_SUMS;
        to[0] = largest;
        to[1] = (float)sum;
        to[2] = (float)all;
        to[3] = wanted >= 0 && wanted < scores->count ? x[wanted] : 0;
    }
}

/* The sums of @row over all ranks: of exponentials as their logarithm. */
static void join_sums(const struct some_scores *scores, int32_t parts, const float *sums,
                      int32_t row, double joint[LOSS_SUMS])
{
    const float *first = sums + (int64_t)row * LOSS_SUMS;
    int64_t next = (int64_t)scores->rows * LOSS_SUMS;
    double largest = -INFINITY, sum = 0;
    joint[2] = joint[3] = 0;
    for (int32_t p = 0; p < parts; p++)
        largest = fmax(largest, (double)first[p * next]);
    for (int32_t p = 0; p < parts; p++) {
        sum += (double)first[p * next + 1] * exp((double)first[p * next] - largest);
        joint[2] += (double)first[p * next + 2];
        joint[3] += (double)first[p * next + 3];
    }
    assert(sum > 0); /* of the largest it is 1 */
    joint[1] = largest + log(sum);
}

/* The largest term is 1 after scaling: the sum cannot overflow.  @dx holds the terms, rounded,
 * until their sum is known; where one is wanted the difference is of exact ones. */
static double row_loss(const struct some_scores *scores, int32_t row, double smoothing,
                       int32_t parts, const float *sums, float *dx)
{
    const float *x = scores->x + (int64_t)row * scores->columns;
    int32_t wanted = scores->label[row] - scores->first, count = scores->count;
    double joint[LOSS_SUMS] = {0}, share = smoothing / scores->classes, each = 1.0 / scores->rows;
    float largest;
    double sum = naive_terms(count, x, &largest, dx);
    for (int32_t i = 0; i < count && share > 0; i++)
        joint[2] += (double)x[i];
    joint[1] = (double)largest + log(sum);
    if (sums)
        join_sums(scores, parts, sums, row, joint);
    else
        joint[3] = (double)x[wanted];
    double part = sums ? each * exp((double)largest - joint[1]) : each / sum;
#pragma omp simd
    for (int32_t i = 0; i < count; i++)
        dx[i] = (float)((double)dx[i] * part - share * each);
    for (int32_t i = count > 0 ? count : 0; i < scores->columns; i++)
        dx[i] = 0;
    if (wanted >= 0 && wanted < count)
        dx[wanted] = (float)((exp((double)x[wanted] - joint[1]) - share - (1 - smoothing)) * each);
    return joint[1] - share * joint[2] - (1 - smoothing) * joint[3];
}

double naive_loss(const struct some_scores *scores, double smoothing, int32_t parts,
                  const float *sums, float *dx)
{
    AUTOFREE double *each = base_alloc(scores->rows, sizeof(*each));
    double loss = 0;
#pragma omp parallel for schedule(static)
    for (int32_t row = 0; row < scores->rows; row++)
        each[row] =
            row_loss(scores, row, smoothing, parts, sums, dx + (int64_t)row * scores->columns);
    for (int32_t row = 0; row < scores->rows; row++)
        loss += each[row];
    return loss / scores->rows;
}

void naive_add(int64_t count, const float *x, float *y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        y[i] += x[i];
}
