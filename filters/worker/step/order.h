/* Order statistics of windows kept sorted: a new sample replaces the one that leaves, so that no
   window is ever sorted again (docs/decisions/0018). The definition is filters.worker.inputs.order.

   A sorted window has ABSENT for samples that are not valid, and as padding up to the next multiple of PADDING,
   so that loops need no remainder. */

#define ABSENT INFINITY /* filters.worker.inputs.order.ABSENT */

static inline size_t padded(size_t n)
{
    return (n + PADDING - 1) / PADDING * PADDING;
}

/* Replace one value of a sorted window of ``places`` padded places by another. */
static inline void replace(float *sorted, size_t places, float out, float in)
{
    int32_t below_out = 0, below_in = 0;
    for (size_t i = 0; i < places; i++) {
        below_out += sorted[i] < out;
        below_in += sorted[i] < in;
    }
    size_t from = (size_t)below_out, to = (size_t)below_in;
    if (from == places) /* absent: only if the window was changed from outside */
        return;
    if (from < to) {
        to--;
        memmove(sorted + from, sorted + from + 1, (to - from) * sizeof(float));
    } else {
        memmove(sorted + to + 1, sorted + to, (from - to) * sizeof(float));
    }
    sorted[to] = in;
}

/* Positions of the quartiles of sorted values: numpy's default quantile, linear interpolation between order
   statistics (Hyndman and Fan's type 7). */
typedef struct {
    size_t valid, below[3], above[3];
    float part[3];
} Quartiles;

static inline void place_quartiles(Quartiles *at, size_t valid)
{
    at->valid = valid;
    for (size_t i = 0; i < 3; i++) {
        double place = (double)(valid - 1) * 0.25 * (double)(i + 1);
        at->below[i] = (size_t)place;
        at->above[i] = at->below[i] + 1 < valid ? at->below[i] + 1 : valid - 1;
        at->part[i] = (float)(place - (double)at->below[i]);
    }
}

static inline float quartile(const float *sorted, const Quartiles *at, size_t i)
{
    float low = sorted[at->below[i]];
    return low + at->part[i] * (sorted[at->above[i]] - low);
}

/* The value of a rank (from 0) among |x - center| of sorted values: the minimum, over all runs of rank + 1
   neighbours, of the larger distance of their two ends. Runs that end after the valid values are infinitely long. */
static inline float nearest(const float *sorted, size_t places, size_t valid, float center, size_t rank)
{
    float least = ABSENT;
    const float *last = sorted + rank;
    size_t runs = padded(valid - rank);
    if (runs > places - rank)
        runs = places - rank;
#pragma omp simd reduction(min : least)
    for (size_t i = 0; i < runs; i++) {
        float below = center - sorted[i], above = last[i] - center;
        float farther = below > above ? below : above;
        least = farther < least ? farther : least;
    }
    return least;
}

static inline float median_deviation(const float *sorted, size_t places, size_t valid, float median)
{
    size_t rank = (valid - 1) / 2;
    float low = nearest(sorted, places, valid, median, rank);
    if (valid % 2)
        return low;
    return low + 0.5f * (nearest(sorted, places, valid, median, rank + 1) - low);
}

/* Of the n entities of a column: ``sorted`` (n, places), the samples that leave and enter, numbers of valid ones in
   the windows afterwards. Writes ``median``, and MAD and both quartiles in the next planes, ``stride`` apart. */
WIDE static void advance_order(float *sorted, size_t places, size_t n, const float *leaving, const float *entering,
                               const uint8_t *valid_counts, size_t window, float *median, size_t stride)
{
    Quartiles at = {0};
    size_t to_mad = (MAD - MEDIAN) * stride, to_q1 = (Q1 - MEDIAN) * stride, to_q3 = (Q3 - MEDIAN) * stride;
    for (size_t e = 0; e < n; e++, sorted += places) {
        replace(sorted, places, leaving[e], entering[e]);
        size_t valid = valid_counts[e] < window ? valid_counts[e] : window;
        float *figure = median + e;
        if (!valid) {
            figure[0] = figure[to_mad] = figure[to_q1] = figure[to_q3] = NAN;
            continue;
        }
        if (valid != at.valid)
            place_quartiles(&at, valid);
        figure[0] = quartile(sorted, &at, 1);
        figure[to_mad] = median_deviation(sorted, places, valid, figure[0]);
        figure[to_q1] = quartile(sorted, &at, 0);
        figure[to_q3] = quartile(sorted, &at, 2);
    }
}
