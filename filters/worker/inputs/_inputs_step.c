/* One tick of the decision inputs of one frame: what filters.worker.inputs.stage computes with numpy, in one pass.

   Each entity and column keeps its window twice: in the order of time, and sorted. A new sample takes the place of the
   one that leaves in both, so that no window is ever sorted anew (docs/decisions/0031). numpy stays the
   definition: the same operations on float32, tested equal (tests/filters/worker/test_inputs.py). */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* acquisition.wire.inputs.PLANES, DERIVED_PLANES */
enum { CUSUM, TIME_ABOVE, MEDIAN, MAD, Q1, Q3, MEAN, VALID_COUNT, COUNTED, ABOVE, LOWEST, HIGHEST };
enum { LAST, VARIANCE, TREND, AGE, DERIVED_PLANES };
enum { VALID = 0, RANGE = 3, CODE_MASK = 0x7f, OUTLIER = 0x80 }; /* acquisition.model.codes */
enum { CPU_BUSY, MEMORY_USED, NETWORK_USED }; /* the formulas, in the order of filters.worker.inputs.native.FORMULAS */
#define LARGEST 1e18f /* filters.kernels.numpy_step.LARGEST */
#define ABSENT INFINITY /* filters.worker.inputs.order.ABSENT */

/* A plan as filters.worker.inputs.native.pack_plan packs it: this, then the arrays that Plan points to. */
typedef struct {
    int32_t sources, derived, metrics, window, counted, plateau;
} Shape;

typedef struct {
    int32_t formula, parts[3];
} Derived;

typedef struct {
    Shape shape;
    size_t columns;
    const double *taus;       /* (derived,) */
    const float *thresholds;  /* (columns,) */
    const float *slacks;      /* (columns,) */
    const int32_t *sources;   /* (sources,) */
    const Derived *formulas;  /* (derived,) */
} Plan;

/* The state of a resource set of n entities in C columns; see filters.worker.inputs.state.InputsState. */
typedef struct {
    float *planes;  /* (P, C, n) */
    float *window;  /* (C, window, n) */
    float *ordered; /* (C, n, window) */
    float *lately;  /* (plateau, C, n) */
    float *derived; /* (4, D, n) */
} State;

typedef struct {
    const float *values;  /* (n, metrics) */
    const uint8_t *codes; /* (n, metrics), or NULL: all valid */
    const float *means;   /* (n, metrics), after this tick */
    double dt;
    float seconds;
    uint64_t step, missing; /* of this tick; how many before it never came, fewer than a window has */
    size_t entities;
} Tick;

/* A row of recent values: raw and mean (C, n), codes (C, n). */
typedef struct {
    float *raw, *mean;
    uint8_t *codes;
} Row;

static int is_usable(float x, uint8_t code)
{
    return (code & CODE_MASK) == VALID && fabsf(x) <= LARGEST;
}

static float derive(const Derived *how, const float *row)
{
    float a = row[how->parts[0]], b = row[how->parts[1]];
    switch (how->formula) {
    case CPU_BUSY:
        return (1.0f - a) - b;
    case MEMORY_USED:
        return 1.0f - a / b;
    default:
        return (isnan(a) || isnan(b) ? NAN : a > b ? a : b) / row[how->parts[2]];
    }
}

/* The code of a derived sample: that of its first part that is not valid. */
static uint8_t derived_code(const Derived *how, const uint8_t *codes, float x)
{
    uint8_t code = VALID;
    for (int i = 0; codes && i < (how->formula == NETWORK_USED ? 3 : 2); i++)
        if ((code & CODE_MASK) == VALID)
            code = (uint8_t)((code & OUTLIER) | codes[how->parts[i]]);
    if ((code & CODE_MASK) != VALID)
        return code & CODE_MASK;
    return fabsf(x) <= LARGEST ? code : RANGE;
}

/* filters.worker.inputs.derived.smooth of one sample; answers the mean. */
static float smooth(float *kept, size_t stride, float old_mean, float x, int valid, double dt, double tau)
{
    float *variance = kept + VARIANCE * stride, *trend = kept + TREND * stride, *age = kept + AGE * stride;
    double elapsed = (double)*age + dt;
    if (!valid) {
        *age = (float)elapsed;
        return old_mean;
    }
    *age = 0.0f;
    if (isnan(old_mean)) {
        *variance = *trend = 0.0f;
        return x;
    }
    double alpha = -expm1(-elapsed / tau);
    float deviation = x - old_mean;
    double mean = old_mean + alpha * deviation;
    *variance = (float)((1.0 - alpha) * (*variance + alpha * deviation * deviation));
    *trend = (float)(*trend + alpha * ((mean - old_mean) / elapsed - *trend));
    return (float)mean;
}

static void take_source(const Tick *tick, const Plan *plan, size_t column, Row *row)
{
    size_t n = tick->entities, m = (size_t)plan->shape.metrics, at = (size_t)plan->sources[column];
    float *raw = row->raw + column * n, *mean = row->mean + column * n;
    uint8_t *codes = row->codes + column * n;
    for (size_t e = 0; e < n; e++, at += m) {
        raw[e] = tick->values[at];
        mean[e] = tick->means[at];
        codes[e] = tick->codes ? tick->codes[at] : VALID;
    }
}

static void take_derived(const Tick *tick, const Plan *plan, const State *state, size_t place, Row *row)
{
    size_t n = tick->entities, m = (size_t)plan->shape.metrics, column = (size_t)plan->shape.sources + place;
    size_t stride = (size_t)plan->shape.derived * n;
    const float *old_mean = state->planes + (MEAN * plan->columns + column) * n;
    for (size_t e = 0; e < n; e++) {
        float x = derive(&plan->formulas[place], tick->values + e * m);
        uint8_t code = derived_code(&plan->formulas[place], tick->codes ? tick->codes + e * m : NULL, x);
        float *kept = state->derived + place * n + e;
        kept[LAST * stride] = row->raw[column * n + e] = x;
        row->codes[column * n + e] = code;
        row->mean[column * n + e] =
            smooth(kept, stride, old_mean[e], x, (code & CODE_MASK) == VALID, tick->dt, plan->taus[place]);
    }
}

static size_t count_below(const float *sorted, size_t n, float x)
{
    int32_t below = 0;
    for (size_t i = 0; i < n; i++)
        below += sorted[i] < x;
    return (size_t)below;
}

/* Take one value out of n sorted ones and put another in. */
static void replace(float *sorted, size_t n, float out, float in)
{
    size_t from = count_below(sorted, n, out), to = count_below(sorted, n, in);
    if (from < to) {
        to--;
        memmove(sorted + from, sorted + from + 1, (to - from) * sizeof(float));
    } else {
        memmove(sorted + to + 1, sorted + to, (from - to) * sizeof(float));
    }
    sorted[to] = in;
}

/* Where the quartiles of so many sorted values lie: numpy's default quantile, linear interpolation between order
   statistics (Hyndman and Fan's type 7). */
typedef struct {
    size_t valid, below[3], above[3];
    float part[3];
} Quartiles;

static void place_quartiles(Quartiles *at, size_t valid)
{
    at->valid = valid;
    for (size_t i = 0; i < 3; i++) {
        double place = (double)(valid - 1) * 0.25 * (double)(i + 1);
        at->below[i] = (size_t)place;
        at->above[i] = at->below[i] + 1 < valid ? at->below[i] + 1 : valid - 1;
        at->part[i] = (float)(place - (double)at->below[i]);
    }
}

static float quartile(const float *sorted, const Quartiles *at, size_t i)
{
    float low = sorted[at->below[i]];
    return low + at->part[i] * (sorted[at->above[i]] - low);
}

/* The value of a rank (from 0) among |x - center| of sorted values: the least, over all runs of rank + 1
   neighbours, of the larger distance of their two ends. */
static float nearest(const float *sorted, size_t valid, float center, size_t rank)
{
    float least = ABSENT;
    const float *last = sorted + rank;
#pragma omp simd reduction(min : least)
    for (size_t i = 0; i < valid - rank; i++) {
        float below = center - sorted[i], above = last[i] - center;
        float farther = below > above ? below : above;
        least = farther < least ? farther : least;
    }
    return least;
}

static float median_deviation(const float *sorted, size_t valid, float median)
{
    size_t rank = (valid - 1) / 2;
    float low = nearest(sorted, valid, median, rank);
    if (valid % 2)
        return low;
    return low + 0.5f * (nearest(sorted, valid, median, rank + 1) - low);
}

static void push(float *lately, size_t stride, size_t plateau, float x)
{
    for (size_t i = plateau - 1; i > 0; i--)
        lately[i * stride] = lately[(i - 1) * stride];
    lately[0] = x;
}

static void extremes(const float *lately, size_t stride, size_t plateau, float *lowest, float *highest)
{
    float low = lately[0], high = lately[0];
    for (size_t i = 1; i < plateau; i++) {
        float x = lately[i * stride];
        if (isnan(x))
            low = high = NAN;
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    *lowest = low;
    *highest = high;
}

/* Ticks that never came take their places in the windows of a column. */
static void skip_missing(const Tick *tick, const Plan *plan, const State *state, size_t column)
{
    size_t n = tick->entities, size = (size_t)plan->shape.window, stride = plan->columns * n;
    float *window = state->window + column * size * n;
    for (uint64_t step = tick->step - tick->missing; step != tick->step; step++) {
        float *newest = window + (size_t)(step % size) * n;
        const float *dropped_row = window + (size_t)((step + size - (uint64_t)plan->shape.counted) % size) * n;
        float *ordered = state->ordered + column * n * size;
        for (size_t e = 0; e < n; e++, ordered += size) {
            float *plane = state->planes + column * n + e;
            float dropped = dropped_row[e], leaving = newest[e];
            newest[e] = ABSENT;
            if (leaving < ABSENT) {
                replace(ordered, size, leaving, ABSENT);
                plane[VALID_COUNT * stride] -= 1.0f;
            }
            if (dropped < ABSENT) {
                plane[COUNTED * stride] -= 1.0f;
                plane[ABOVE * stride] -= (float)(dropped > plan->thresholds[column]);
            }
        }
    }
}

static void advance_column(const Tick *tick, const Plan *plan, const State *state, size_t column, Row *row)
{
    size_t n = tick->entities, size = (size_t)plan->shape.window, plateau = (size_t)plan->shape.plateau;
    size_t stride = plan->columns * n, place = (size_t)(tick->step % size);
    size_t dropped_at = (size_t)((tick->step + size - (size_t)plan->shape.counted) % size);
    float threshold = plan->thresholds[column], slack = plan->slacks[column];
    float *window = state->window + column * size * n, *ordered = state->ordered + column * n * size;
    float *newest = window + place * n;
    const float *dropped_row = window + dropped_at * n;
    Quartiles at = {0};
    for (size_t e = 0; e < n; e++, ordered += size) {
        float *plane = state->planes + column * n + e;
        float raw = row->raw[column * n + e], dropped = dropped_row[e], leaving = newest[e];
        uint8_t *code = row->codes + column * n + e;
        int usable = is_usable(raw, *code), exceeds = usable && raw > threshold;
        if (!usable && (*code & CODE_MASK) == VALID)
            *code = RANGE;
        float entering = usable ? raw : ABSENT;
        newest[e] = entering;
        replace(ordered, size, leaving, entering);
        if (usable) {
            float moved = plane[CUSUM * stride] + (raw - plane[MEAN * stride]) - slack;
            plane[CUSUM * stride] = moved > 0.0f ? moved : 0.0f; /* 0 without a baseline */
            plane[TIME_ABOVE * stride] = exceeds ? plane[TIME_ABOVE * stride] + tick->seconds : 0.0f;
        }
        float counted = plane[VALID_COUNT * stride] + (float)usable - (float)(leaving < ABSENT);
        plane[VALID_COUNT * stride] = counted;
        plane[COUNTED * stride] += (float)(usable - (dropped < ABSENT));
        plane[ABOVE * stride] += (float)(exceeds - (dropped < ABSENT && dropped > threshold));
        plane[MEAN * stride] = row->mean[column * n + e];
        size_t valid = counted > 0.0f ? (counted < (float)size ? (size_t)counted : size) : 0;
        if (valid) {
            if (valid != at.valid)
                place_quartiles(&at, valid);
            float median = quartile(ordered, &at, 1);
            plane[MEDIAN * stride] = median;
            plane[MAD * stride] = median_deviation(ordered, valid, median);
            plane[Q1 * stride] = quartile(ordered, &at, 0);
            plane[Q3 * stride] = quartile(ordered, &at, 2);
        } else {
            plane[MEDIAN * stride] = plane[MAD * stride] = plane[Q1 * stride] = plane[Q3 * stride] = NAN;
        }
        if (plateau) {
            float *lately = state->lately + column * n + e;
            if (usable)
                push(lately, stride, plateau, raw);
            if (valid < plateau)
                plane[LOWEST * stride] = plane[HIGHEST * stride] = NAN;
            else
                extremes(lately, stride, plateau, plane + LOWEST * stride, plane + HIGHEST * stride);
        }
    }
}

/* Points into ``buffer``; 0 when it is no plan. */
static int read_plan(Plan *plan, const Py_buffer *buffer)
{
    const char *at = buffer->buf;
    if ((size_t)buffer->len < sizeof(Shape))
        return 0;
    memcpy(&plan->shape, at, sizeof(Shape));
    const Shape *shape = &plan->shape;
    if (shape->sources < 0 || shape->derived < 0 || shape->metrics < 1 || shape->window < 1 || shape->counted < 1
        || shape->counted > shape->window || shape->plateau < 0 || shape->plateau > shape->window)
        return 0;
    size_t derived = (size_t)shape->derived, sources = (size_t)shape->sources;
    plan->columns = sources + derived;
    if ((size_t)buffer->len != sizeof(Shape) + derived * (sizeof(double) + sizeof(Derived)) + 8 * plan->columns + 4 * sources)
        return 0;
    plan->taus = (const double *)(at += sizeof(Shape));
    plan->thresholds = (const float *)(at += derived * sizeof(double));
    plan->slacks = (const float *)(at += plan->columns * sizeof(float));
    plan->sources = (const int32_t *)(at += plan->columns * sizeof(float));
    plan->formulas = (const Derived *)(at += sources * sizeof(int32_t));
    for (size_t i = 0; i < sources; i++)
        if (plan->sources[i] < 0 || plan->sources[i] >= shape->metrics)
            return 0;
    for (size_t i = 0; i < derived; i++)
        for (int part = 0; part < 3; part++)
            if (plan->formulas[i].parts[part] < 0 || plan->formulas[i].parts[part] >= shape->metrics)
                return 0;
    return 1;
}

enum { PLANES_BUFFER, WINDOW, ORDERED, LATELY, DERIVED, PLAN, VALUES, CODES, MEANS, BUFFERS };

static const char *fault(const Plan *plan, const Py_buffer *given, size_t n)
{
    size_t series = plan->columns * n * sizeof(float), window = (size_t)plan->shape.window;
    size_t samples = n * (size_t)plan->shape.metrics;
    size_t planes = plan->shape.plateau ? HIGHEST + 1 : ABOVE + 1;
    if ((size_t)given[VALUES].len != samples * 4 || (size_t)given[MEANS].len != samples * 4)
        return "values or means have the wrong length";
    if (given[CODES].len && (size_t)given[CODES].len != samples)
        return "codes have the wrong length";
    if ((size_t)given[PLANES_BUFFER].len != planes * series || (size_t)given[WINDOW].len != window * series
        || (size_t)given[ORDERED].len != window * series
        || (size_t)given[LATELY].len != (size_t)plan->shape.plateau * series
        || (size_t)given[DERIVED].len != DERIVED_PLANES * (size_t)plan->shape.derived * n * sizeof(float))
        return "the state does not fit the plan and the frame";
    return NULL;
}

static PyObject *run(const Plan *plan, const Py_buffer *given, Tick *tick)
{
    size_t series = plan->columns * tick->entities;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(9 * series));
    if (!made)
        return NULL;
    char *data = PyBytes_AsString(made);
    Row row = {(float *)data, (float *)data + series, (uint8_t *)data + 8 * series};
    State state = {given[PLANES_BUFFER].buf, given[WINDOW].buf, given[ORDERED].buf, given[LATELY].buf,
                   given[DERIVED].buf};
    tick->values = given[VALUES].buf;
    tick->codes = given[CODES].len ? given[CODES].buf : NULL;
    tick->means = given[MEANS].buf;
    for (size_t column = 0; column < (size_t)plan->shape.sources; column++)
        take_source(tick, plan, column, &row);
    for (size_t place = 0; place < (size_t)plan->shape.derived; place++)
        take_derived(tick, plan, &state, place, &row);
    for (size_t column = 0; column < plan->columns; column++) {
        skip_missing(tick, plan, &state, column);
        advance_column(tick, plan, &state, column, &row);
    }
    return made;
}

PyDoc_STRVAR(advance_doc,
"advance(planes, window, ordered, lately, derived, plan, values, codes, means, dt, seconds, step, missing) -> row\n\n"
"Move the decision inputs of one resource set by one frame, in place (filters.worker.inputs.state.InputsState says what\n"
"the first five are, pack_plan makes ``plan``). ``values`` and ``means`` float32 (n, metrics), ``codes`` uint8 or empty,\n"
"``dt`` seconds since the frame before it, ``seconds`` that each sample stands for, ``step`` of this tick, and how many\n"
"ticks before it never came.\n"
"Answers the row of recent values: raw and means float32 (C, n), codes uint8 (C, n). Raises ValueError.");

static PyObject *advance(PyObject *module, PyObject *arguments)
{
    Py_buffer given[BUFFERS];
    Plan plan;
    Tick tick;
    unsigned long long step, missing;
    PyObject *answer = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*w*w*w*w*y*y*y*y*dfKK", &given[PLANES_BUFFER], &given[WINDOW], &given[ORDERED],
                          &given[LATELY], &given[DERIVED], &given[PLAN], &given[VALUES], &given[CODES],
                          &given[MEANS], &tick.dt, &tick.seconds, &step, &missing))
        return NULL;
    tick.step = step;
    tick.missing = missing;
    const char *wrong = read_plan(&plan, &given[PLAN]) ? NULL : "this is no plan";
    if (!wrong) {
        tick.entities = (size_t)given[VALUES].len / 4 / (size_t)plan.shape.metrics;
        wrong = missing < (unsigned long long)plan.shape.window && missing <= step
                    ? fault(&plan, given, tick.entities)
                    : "as many ticks as a window has are missing";
    }
    if (wrong)
        PyErr_SetString(PyExc_ValueError, wrong);
    else
        answer = run(&plan, given, &tick);
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&given[i]);
    return answer;
}

static PyMethodDef methods[] = {{"advance", advance, METH_VARARGS, advance_doc}, {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_inputs_step", "The step of the decision inputs in C; see filters.worker.inputs.stage.", 0,
    methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__inputs_step(void)
{
    return PyModuleDef_Init(&definition);
}
