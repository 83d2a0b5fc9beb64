#include "exec/cpu/dnnl/kernels_strip.h"

/* Inputs first ... end - 1 along one side. */
struct range {
    int64_t first, end;
};

static struct range window(int64_t i, int64_t in, int64_t out)
{
    return (struct range){i * in / out, ((i + 1) * in + out - 1) / out};
}

/* One output pixel of one block, and the inputs it covers. */
struct patch {
    const struct layer *layer;
    struct range down, right;
    int64_t block;
};

static float share(const struct patch *p)
{
    return 1 / (float)((p->down.end - p->down.first) * (p->right.end - p->right.first));
}

EVERY_WIDTH static void average(const struct patch *p, const float *x, float *y)
{
    for (int64_t lane = 0; lane < p->block; lane += LANES) {
        int64_t width = p->block - lane < LANES ? p->block - lane : LANES;
        vector sum = {0};
        for (int64_t h = p->down.first; h < p->down.end; h++)
            for (int64_t w = p->right.first; w < p->right.end; w++)
                sum += load(x + (h * p->layer->in.width + w) * p->block + lane, width);
        store(y + lane, sum * share(p), width);
    }
}

EVERY_WIDTH static void spread(const struct patch *p, const float *dy, float *dx)
{
    for (int64_t lane = 0; lane < p->block; lane += LANES) {
        int64_t width = p->block - lane < LANES ? p->block - lane : LANES;
        vector part = load(dy + lane, width) * share(p);
        for (int64_t h = p->down.first; h < p->down.end; h++)
            for (int64_t w = p->right.first; w < p->right.end; w++) {
                float *to = dx + (h * p->layer->in.width + w) * p->block + lane;
                store(to, load(to, width) + part, width);
            }
    }
}

static struct patch patch_of(const struct layer *layer, int64_t block, int64_t output)
{
    return (struct patch){
        layer, window(output / layer->out.width, layer->in.height, layer->out.height),
        window(output % layer->out.width, layer->in.width, layer->out.width), block};
}

void kernel_average(const struct layer *layer, int64_t images, int64_t block, const float *x,
                    float *y)
{
    int64_t in = (int64_t)layer->in.height * layer->in.width;
    int64_t out = (int64_t)layer->out.height * layer->out.width;
#pragma omp parallel for schedule(static)
    for (int64_t plane = 0; plane < images * layer->in.channels / block; plane++)
        for (int64_t i = 0; i < out; i++) {
            struct patch patch = patch_of(layer, block, i);
            average(&patch, x + plane * in * block, y + (plane * out + i) * block);
        }
}

void kernel_average_backward(const struct layer *layer, int64_t images, int64_t block,
                             const float *dy, float *dx)
{
    int64_t in = (int64_t)layer->in.height * layer->in.width;
    int64_t out = (int64_t)layer->out.height * layer->out.width;
#pragma omp parallel for schedule(static)
    for (int64_t plane = 0; plane < images * layer->in.channels / block; plane++) {
        memset(dx + plane * in * block, 0, (size_t)(in * block) * sizeof(float));
        for (int64_t i = 0; i < out; i++) {
            struct patch patch = patch_of(layer, block, i);
            spread(&patch, dy + (plane * out + i) * block, dx + plane * in * block);
        }
    }
}
