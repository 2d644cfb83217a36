/* One step of the averages over one frame: the computation of filters.kernels.numpy_step.advance in one pass, in place.

A frame of 100 entities x 15 metrics and its state are 24 kB, which no cache holds with ten thousand
hosts. numpy reads and writes its arrays about twenty times per step, this loop reads and
writes each once (docs/decisions/0018). filters.kernels.numpy_step is the definition: the same
operations on float32 in the same order, tested equal (tests/filters/worker/test_step_native.py). */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 256 };

/* Loops worth a second version for wider registers, chosen when the module is loaded; both round in the same way. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* A sample that is not plainly valid: acquisition.wire.records.smoothed.EXCEPTION */
typedef struct {
    uint32_t index;
    uint32_t code;
    float age;
} Exception;

/* The planes of a state; NULL if not computed. */
typedef struct {
    float *mean, *variance, *trend;
} Planes;

typedef struct {
    float mean, variance, trend;
} Sample;

static Sample take(const Planes *planes, size_t i)
{
    Sample sample = {planes->mean[i], planes->variance ? planes->variance[i] : 0.0f,
                     planes->trend ? planes->trend[i] : 0.0f};
    return sample;
}

static void put(const Planes *planes, size_t i, Sample sample)
{
    planes->mean[i] = sample.mean;
    if (planes->variance)
        planes->variance[i] = sample.variance;
    if (planes->trend)
        planes->trend[i] = sample.trend;
}

/* Weights of a new sample and of the old value; their sum is one, but not in float32. */
typedef struct {
    float alpha, decay;
} Weights;

static Weights weigh(double elapsed, double tau)
{
    Weights weights = {(float)-expm1(-elapsed / tau), (float)exp(-elapsed / tau)};
    return weights;
}

/* filters.kernels: new planes of a valid sample. ``deviation``: from the mean before it; ``moved``: change of
   the mean. */

static inline float next_mean(float mean, float deviation, float alpha)
{
    return alpha * deviation + mean;
}

static inline float next_variance(float variance, float deviation, float alpha, float decay)
{
    return (deviation * deviation * alpha + variance) * decay;
}

static inline float next_trend(float trend, float moved, float elapsed, float alpha)
{
    return (moved / elapsed - trend) * alpha + trend;
}

/* At most BLOCK samples from i on. */
WIDE static void step_block(const Planes *planes, const float *values, const float *alpha, const float *decay,
                       float elapsed, size_t i, size_t n)
{
    float deviation[BLOCK], moved[BLOCK];
    float *restrict mean = planes->mean + i;
    const float *restrict x = values + i;
    for (size_t j = 0; j < n; j++) {
        deviation[j] = x[j] - mean[j];
        float next = next_mean(mean[j], deviation[j], alpha[j]);
        moved[j] = next - mean[j];
        mean[j] = next;
    }
    if (planes->variance) {
        float *restrict variance = planes->variance + i;
        for (size_t j = 0; j < n; j++)
            variance[j] = next_variance(variance[j], deviation[j], alpha[j], decay[j]);
    }
    if (planes->trend) {
        float *restrict trend = planes->trend + i;
        for (size_t j = 0; j < n; j++)
            trend[j] = next_trend(trend[j], moved[j], elapsed, alpha[j]);
    }
}

static Sample step_one(Sample old, float x, Weights weights, float elapsed)
{
    if (isinf(elapsed)) { /* the first valid sample primes */
        Sample first = {x, 0.0f, 0.0f};
        return first;
    }
    float deviation = x - old.mean;
    Sample next;
    next.mean = next_mean(old.mean, deviation, weights.alpha);
    next.variance = next_variance(old.variance, deviation, weights.alpha, weights.decay);
    next.trend = next_trend(old.trend, next.mean - old.mean, elapsed, weights.alpha);
    return next;
}

/* The samples that have a code or cannot be smoothed, in order; returns their number. */
static size_t find_exceptions(const float *values, const uint8_t *codes, size_t n, Exception *found)
{
    size_t count = 0;
    for (size_t start = 0; start < n; start += 64) {
        size_t end = start + 64 < n ? start + 64 : n;
        int any = 0;
        for (size_t i = start; i < end; i++)
            any |= !(fabsf(values[i]) <= LARGEST);
        if (codes)
            for (size_t i = start; i < end; i++)
                any |= codes[i];
        if (!any)
            continue;
        for (size_t i = start; i < end; i++) {
            uint32_t code = codes ? codes[i] : VALID;
            if ((code & CODE_MASK) == VALID && !(fabsf(values[i]) <= LARGEST))
                code = RANGE;
            if (code) {
                found[count].index = (uint32_t)i;
                found[count++].code = code;
            }
        }
    }
    return count;
}

typedef struct {
    Planes planes;
    const float *values;
    const uint8_t *codes; /* NULL: all valid */
    size_t samples;
    const Exception *before; /* those of the previous frame */
    size_t before_count;
    double dt;
    const double *taus; /* one, or one per metric */
    size_t tau_count;
} Frame;

static double tau_at(const Frame *frame, size_t i)
{
    return frame->taus[frame->tau_count == 1 ? 0 : i % frame->tau_count];
}

/* ``alpha`` has room for 2 (tau_count + BLOCK): alpha and decay repeat with the metrics. */
static void step_all(const Frame *frame, float *alpha)
{
    size_t period = frame->tau_count, length = period + BLOCK;
    float *decay = alpha + length;
    for (size_t i = 0; i < length; i++) {
        if (i < period) {
            Weights weights = weigh(frame->dt, frame->taus[i]);
            alpha[i] = weights.alpha;
            decay[i] = weights.decay;
        } else {
            alpha[i] = alpha[i - period];
            decay[i] = decay[i - period];
        }
    }
    for (size_t i = 0; i < frame->samples; i += BLOCK)
        step_block(&frame->planes, frame->values, alpha + i % period, decay + i % period, (float)frame->dt, i,
                   frame->samples - i < BLOCK ? frame->samples - i : BLOCK);
}

/* acquisition.model.codes.IS_INVALID */
static int is_invalid(uint32_t code)
{
    code &= CODE_MASK;
    return code != VALID && code != MISSING && code != FIRST && code != LATE;
}

/* Smooth the frame; ``exceptions``: those found, whose ages are set. ``old`` has room for the old values of these and
   the previous ones. Returns the number of exceptions that failed a check. */
static size_t advance_frame(const Frame *frame, Exception *exceptions, size_t count, Sample *old, float *alpha)
{
    const Planes *planes = &frame->planes;
    Sample *held = old + frame->before_count;
    size_t next = 0, invalid = 0;
    if (planes->mean) {
        for (size_t k = 0; k < frame->before_count; k++)
            old[k] = take(planes, frame->before[k].index);
        for (size_t k = 0; k < count; k++)
            held[k] = take(planes, exceptions[k].index);
        step_all(frame, alpha);
        for (size_t k = 0; k < frame->before_count; k++) {
            size_t i = frame->before[k].index;
            float waited = (float)frame->dt + frame->before[k].age;
            put(planes, i, step_one(old[k], frame->values[i], weigh(waited, tau_at(frame, i)), waited));
        }
    }
    for (size_t k = 0; k < count; k++) {
        while (next < frame->before_count && frame->before[next].index < exceptions[k].index)
            next++;
        float age = (float)frame->dt;
        if (next < frame->before_count && frame->before[next].index == exceptions[k].index)
            age += frame->before[next].age;
        if ((exceptions[k].code & CODE_MASK) == VALID) {
            exceptions[k].age = 0.0f; /* an outlier: it was used */
            continue;
        }
        exceptions[k].age = age;
        invalid += (size_t)is_invalid(exceptions[k].code);
        if (planes->mean)
            put(planes, exceptions[k].index, held[k]);
    }
    return invalid;
}
