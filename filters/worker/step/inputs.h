/* One tick of the decision inputs of one frame: the computation of filters.worker.compute.stage in one pass.

The memory of a resource set's inputs begins with the section in the record's format, so that encoding it
is copying it (docs/decisions/0018). numpy is the definition: the same operations on float32, tested equal
(tests/filters/worker/test_step_native.py). */

/* A plan as packed by filters.worker.inputs.plan: this, then the arrays that Plan points to. */
typedef struct {
    int32_t sources, derived, metrics, window, counted, plateau, order, names_size, depth, bursts;
} Shape;

typedef struct {
    int32_t formula, parts[MOST_PARTS];
} Derived;

typedef struct {
    Shape shape;
    size_t columns;
    const double *taus;      /* (derived,) */
    const int32_t *sources;  /* (sources,) */
    const Derived *formulas; /* (derived,) */
} Plan;

/* The memory of filters.worker.inputs.state.InputsState, of n entities in C columns. */
typedef struct {
    char *section;
    size_t section_size;
    double *since;                      /* (n,) */
    float *figures;                     /* (F, C, n): FIGURES_KEPT, without plateau or order statistics if not wanted */
    float *derived;                     /* (5, D, n) */
    float *bursts;                      /* (B, n), B 0 or BURST_FIGURES */
    const float *thresholds, *slacks;   /* (C,) */
    uint8_t *seen;                      /* (n,) */
    uint8_t *counts;                    /* (3, C, n) */
    uint8_t *codes;                     /* (D, n) */
    float *window;                      /* (C, window, n) */
    float *lately;                      /* (plateau, C, n) */
    float *ordered;                     /* (C, n, padded window), only with order statistics */
    const uint32_t *slots;              /* (n,): places in rows */
    size_t size;                        /* total */
} Memory;

typedef struct {
    const float *values;  /* (n, metrics) */
    const uint8_t *codes; /* (n, metrics), or NULL: all valid */
    const float *means;   /* (n, metrics), before this tick */
    double dt, wall, monotonic;
    float seconds;
    uint64_t step, first, missing; /* this tick; the oldest; ticks before it that never came, fewer than a window has */
    uint32_t life;
    size_t entities, capacity;
    int begins; /* whether the ticks before are unknown */
} Tick;

/* Of a column: samples of this tick, their codes, the averages before it, and the samples that leave the window. */
typedef struct {
    float *raw, *baseline, *leaving;
    uint8_t *codes;
} Column;

static size_t up_to_eight(size_t size)
{
    return (size + 7) / 8 * 8;
}

static size_t row_size(const Plan *plan, size_t capacity)
{
    return up_to_eight(ROW_HEADER + plan->columns * (4 * capacity + (capacity + 7) / 8));
}

static size_t seed_size(const Plan *plan, size_t capacity)
{
    return up_to_eight(SEED_HEADER + 4 * plan->columns * capacity);
}

static size_t figure_count(const Shape *shape)
{
    return LOWEST + (shape->plateau ? MEDIAN - LOWEST : 0) + (shape->order ? ALL_FIGURES - MEDIAN : 0);
}

static void place_memory(Memory *memory, const Plan *plan, char *at, size_t n)
{
    size_t c = plan->columns, d = (size_t)plan->shape.derived, window = (size_t)plan->shape.window;
    size_t series = c * n;
    char *start = at;
    memory->section = at;
    memory->since = (double *)(at += SECTION_HEADER);
    memory->figures = (float *)(at += 8 * n);
    memory->derived = (float *)(at += 4 * figure_count(&plan->shape) * series);
    memory->bursts = (float *)(at += 4 * DERIVED_PLANES * d * n);
    memory->thresholds = (const float *)(at += 4 * (size_t)plan->shape.bursts * n);
    memory->slacks = memory->thresholds + c;
    memory->seen = (uint8_t *)(at += 8 * c + 2 * (size_t)plan->shape.sources);
    memory->counts = memory->seen + n;
    memory->codes = memory->counts + COUNTS * series;
    at = (char *)memory->codes + d * n + (size_t)plan->shape.names_size;
    memory->section_size = up_to_eight((size_t)(at - start));
    memory->window = (float *)(start + memory->section_size);
    memory->lately = memory->window + window * series;
    memory->ordered = memory->lately + (size_t)plan->shape.plateau * series;
    memory->slots = (const uint32_t *)(memory->ordered + (plan->shape.order ? padded(window) * series : 0));
    memory->size = (size_t)((const char *)(memory->slots + n) - start);
}

static int is_usable(float x, uint8_t code)
{
    return (code & CODE_MASK) == VALID && fabsf(x) <= LARGEST;
}

/* Whether a formula needs the part with this number; extra ones may be missing. */
static int needs(const Derived *how, int part)
{
    return part < (how->formula == CPU_WAITING ? 4 : how->formula == NETWORK_USED ? 3 : 2);
}

static int is_missing(uint8_t code)
{
    return (code & CODE_MASK) == MISSING;
}

static float maximum(float a, float b)
{
    return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
}

static float extra_or(float absent, int part, const float *row, const uint8_t *codes)
{
    return part < 0 || (codes && is_missing(codes[part])) ? absent : row[part];
}

static float waiting_share(float busy, float count, float runnable, float suffering, float pressure)
{
    float queued = maximum(maximum(pressure, runnable - count - 1.0f), 0.0f);
    float waiting = suffering * (float)(suffering > 0.0f) + queued * (float)(suffering <= 0.0f);
    return waiting / maximum(busy * count + waiting, 1e-9f);
}

static float derive(const Derived *how, const float *row, const uint8_t *codes)
{
    const int32_t *parts = how->parts;
    float a = row[parts[0]], b = row[parts[1]];
    switch (how->formula) {
    case CPU_BUSY:
        return (1.0f - a) - b;
    case MEMORY_USED:
        return 1.0f - (a + extra_or(0.0f, parts[2], row, codes)) / b;
    case NETWORK_USED:
        return maximum(a, b) / row[parts[2]];
    default:
        return waiting_share((1.0f - a) - b, row[parts[2]], row[parts[3]], extra_or(-1.0f, parts[4], row, codes),
                             extra_or(-1.0f, parts[5], row, codes));
    }
}

/* The code of a derived sample: that of its first part that is not valid, ignoring missing extra ones. */
static uint8_t derived_code(const Derived *how, const uint8_t *codes, float x)
{
    uint8_t code = VALID;
    for (int i = 0; codes && i < MOST_PARTS; i++)
        if (how->parts[i] >= 0 && (code & CODE_MASK) == VALID && (needs(how, i) || !is_missing(codes[how->parts[i]])))
            code = (uint8_t)((code & OUTLIER) | codes[how->parts[i]]);
    if ((code & CODE_MASK) != VALID)
        return code & CODE_MASK;
    return fabsf(x) <= LARGEST ? code : RANGE;
}

/* filters.worker.inputs.derived.smooth of one sample; its planes are ``stride`` apart. */
static void smooth(float *kept, size_t stride, float x, int valid, double dt, double tau)
{
    Planes planes = {kept + DERIVED_MEAN * stride, kept + DERIVED_VARIANCE * stride, kept + DERIVED_TREND * stride};
    float *age = kept + AGE * stride, elapsed = *age + (float)dt;
    *age = valid ? 0.0f : elapsed;
    if (valid)
        put(&planes, 0, step_one(take(&planes, 0), x, weigh(elapsed, tau), isnan(*planes.mean) ? INFINITY : elapsed));
}

/* Take a column of frames; before the frame is smoothed, as baselines are the averages before it. */
static void take_source(const Tick *tick, const Plan *plan, size_t place, Column column)
{
    size_t n = tick->entities, m = (size_t)plan->shape.metrics, at = (size_t)plan->sources[place];
    for (size_t e = 0; e < n; e++, at += m) {
        column.raw[e] = tick->values[at];
        column.baseline[e] = tick->begins ? NAN : tick->means[at];
        column.codes[e] = tick->codes ? tick->codes[at] : VALID;
    }
}

static void take_derived(const Tick *tick, const Plan *plan, const Memory *memory, size_t place, Column column)
{
    size_t n = tick->entities, m = (size_t)plan->shape.metrics, stride = (size_t)plan->shape.derived * n;
    for (size_t e = 0; e < n; e++) {
        const uint8_t *codes = tick->codes ? tick->codes + e * m : NULL;
        float x = derive(&plan->formulas[place], tick->values + e * m, codes);
        uint8_t code = derived_code(&plan->formulas[place], codes, x);
        float *kept = memory->derived + place * n + e;
        kept[LAST * stride] = column.raw[e] = x;
        column.baseline[e] = kept[DERIVED_MEAN * stride];
        column.codes[e] = memory->codes[place * n + e] = code;
        smooth(kept, stride, x, (code & CODE_MASK) == VALID, tick->dt, plan->taus[place]);
    }
}

static void grow_older(const Tick *tick, const Plan *plan, const Memory *memory)
{
    uint64_t ticks = 1 + tick->missing, window = (uint64_t)plan->shape.window;
    for (size_t e = 0; e < tick->entities; e++) {
        if (!memory->seen[e])
            memory->since[e] = tick->wall;
        uint64_t seen = memory->seen[e] ? memory->seen[e] + ticks : 1;
        memory->seen[e] = (uint8_t)(seen < window ? seen : window);
    }
}

/* Add ticks that never came to the windows of a column. */
static void skip_missing(const Tick *tick, const Plan *plan, const Memory *memory, size_t column)
{
    size_t n = tick->entities, size = (size_t)plan->shape.window, stride = plan->columns * n;
    float *window = memory->window + column * size * n, threshold = memory->thresholds[column];
    uint8_t *counts = memory->counts + column * n;
    for (uint64_t step = tick->step - tick->missing; step != tick->step; step++) {
        float *newest = window + (size_t)(step % size) * n;
        const float *dropped_row = window + (size_t)((step + size - (uint64_t)plan->shape.counted) % size) * n;
        for (size_t e = 0; e < n; e++) {
            float dropped = dropped_row[e], leaving = newest[e];
            newest[e] = ABSENT;
            counts[VALID_COUNT * stride + e] -= leaving < ABSENT;
            counts[COUNTED * stride + e] -= dropped < ABSENT;
            counts[ABOVE * stride + e] -= dropped < ABSENT && dropped > threshold;
            if (plan->shape.order && leaving < ABSENT)
                replace(memory->ordered + (column * n + e) * padded(size), padded(size), leaving, ABSENT);
        }
    }
}

/* Counts, CUSUM, time above; ``newest``: row of the window for the samples. */
static void count(const Tick *tick, const Plan *plan, const Memory *memory, size_t place, Column column, float *newest)
{
    size_t n = tick->entities, size = (size_t)plan->shape.window, stride = plan->columns * n;
    size_t dropped_at = (size_t)((tick->step + size - (size_t)plan->shape.counted) % size);
    const float *dropped_row = memory->window + (place * size + dropped_at) * n;
    float threshold = memory->thresholds[place], slack = memory->slacks[place], seconds = tick->seconds;
    float *cusum = memory->figures + CUSUM * stride + place * n;
    float *time_above = memory->figures + TIME_ABOVE * stride + place * n;
    uint8_t *counts = memory->counts + place * n;
    for (size_t e = 0; e < n; e++) {
        float raw = column.raw[e], dropped = dropped_row[e], leaving = newest[e];
        int usable = is_usable(raw, column.codes[e]), exceeds = usable && raw > threshold;
        if (!usable && (column.codes[e] & CODE_MASK) == VALID)
            column.codes[e] = RANGE;
        column.leaving[e] = leaving;
        newest[e] = usable ? raw : ABSENT;
        if (usable) {
            float moved = cusum[e] + (raw - column.baseline[e]) - slack;
            cusum[e] = moved > 0.0f ? moved : 0.0f; /* 0 without a baseline */
            time_above[e] = exceeds ? time_above[e] + seconds : 0.0f;
        }
        counts[VALID_COUNT * stride + e] += (uint8_t)(usable - (leaving < ABSENT));
        counts[COUNTED * stride + e] += (uint8_t)(usable - (dropped < ABSENT));
        counts[ABOVE * stride + e] += (uint8_t)(exceeds - (dropped < ABSENT && dropped > threshold));
    }
}

/* Lowest and highest of the last valid samples; unknown if the window has fewer. */
static void advance_plateau(const Tick *tick, const Plan *plan, const Memory *memory, size_t place, const float *newest)
{
    size_t n = tick->entities, stride = plan->columns * n, plateau = (size_t)plan->shape.plateau;
    float *lately = memory->lately + place * n, *lowest = memory->figures + LOWEST * stride + place * n;
    float *highest = memory->figures + HIGHEST * stride + place * n;
    const uint8_t *valid = memory->counts + place * n;
    for (size_t e = 0; e < n; e++) {
        float low = NAN, high = NAN;
        if (newest[e] < ABSENT) {
            for (size_t i = plateau - 1; i > 0; i--)
                lately[i * stride + e] = lately[(i - 1) * stride + e];
            lately[e] = newest[e];
        }
        if (valid[e] >= plateau) {
            low = high = lately[e];
            for (size_t i = 1; i < plateau; i++) {
                float x = lately[i * stride + e];
                low = isnan(x) || x < low ? x : low;
                high = isnan(x) || x > high ? x : high;
            }
        }
        lowest[e] = low;
        highest[e] = high;
    }
}

/* Write the samples of a column to a row of recent values; absent entities have been written before. */
static void put_row(const Tick *tick, const Memory *memory, Column column, char *raw_row, uint8_t *outliers)
{
    for (size_t e = 0; e < tick->entities; e++) {
        size_t slot = memory->slots[e];
        uint8_t code = column.codes[e];
        uint32_t bits = NOT_VALID | (code & CODE_MASK);
        if ((code & CODE_MASK) == VALID)
            memcpy(&bits, column.raw + e, 4);
        memcpy(raw_row + 4 * slot, &bits, 4);
        if (code == OUTLIER)
            outliers[slot / 8] |= (uint8_t)(1 << slot % 8);
    }
}

static void begin_row(const Tick *tick, const Plan *plan, char *row)
{
    uint32_t head[2] = {(uint32_t)tick->step, tick->life}, gone = NOT_VALID | NOT_THERE;
    size_t raw = 4 * plan->columns * tick->capacity;
    memcpy(row, head, 8);
    memcpy(row + 8, &tick->wall, 8);
    memcpy(row + 16, &tick->monotonic, 8);
    for (size_t i = 0; i < raw; i += 4)
        memcpy(row + ROW_HEADER + i, &gone, 4);
    memset(row + ROW_HEADER + raw, 0, row_size(plan, tick->capacity) - ROW_HEADER - raw);
}

static void advance_column(const Tick *tick, const Plan *plan, const Memory *memory, size_t place, Column column,
                           char *row)
{
    size_t n = tick->entities, size = (size_t)plan->shape.window, stride = plan->columns * n;
    float *newest = memory->window + (place * size + (size_t)(tick->step % size)) * n;
    skip_missing(tick, plan, memory, place);
    count(tick, plan, memory, place, column, newest);
    if (plan->shape.bursts && place >= (size_t)plan->shape.sources
        && plan->formulas[place - (size_t)plan->shape.sources].formula == CPU_BUSY)
        advance_bursts(memory->bursts, n, newest, memory->counts + (ABOVE * plan->columns + place) * n,
                       plan->shape.counted, memory->thresholds[place], tick->seconds, tick->dt, tick->monotonic);
    if (plan->shape.plateau)
        advance_plateau(tick, plan, memory, place, newest);
    if (plan->shape.order)
        advance_order(memory->ordered + place * n * padded(size), padded(size), n, column.leaving, newest,
                      memory->counts + place * n, size,
                      memory->figures + (plan->shape.plateau ? MEDIAN : LOWEST) * stride + place * n, stride);
    size_t capacity = tick->capacity;
    char *raw_rows = row + ROW_HEADER;
    uint8_t *outliers = (uint8_t *)raw_rows + 4 * plan->columns * capacity;
    put_row(tick, memory, column, raw_rows + 4 * place * capacity, outliers + place * ((capacity + 7) / 8));
}

static Column column_of(const Tick *tick, size_t columns, size_t place, char *scratch)
{
    size_t n = tick->entities, series = columns * n;
    float *floats = (float *)scratch;
    Column column = {floats + place * n, floats + series + place * n, floats + 2 * series,
                     (uint8_t *)(floats + 2 * series + n) + place * n};
    return column;
}

static size_t scratch_size(const Plan *plan, size_t n)
{
    return plan->columns * n * 9 + 4 * n + 1;
}

/* Read the values needed before the frame is smoothed. */
static void take_sources(const Tick *tick, const Plan *plan, char *scratch)
{
    for (size_t place = 0; place < (size_t)plan->shape.sources; place++)
        take_source(tick, plan, place, column_of(tick, plan->columns, place, scratch));
}

/* Advance the inputs by one tick and write its ``row``. */
static void advance_inputs(const Tick *tick, const Plan *plan, const Memory *memory, char *scratch, char *row)
{
    size_t sources = (size_t)plan->shape.sources;
    memcpy(memory->section + STEP_AT, &tick->step, 8);
    memcpy(memory->section + FIRST_AT, &tick->first, 8);
    for (size_t place = 0; place < (size_t)plan->shape.derived; place++)
        take_derived(tick, plan, memory, place, column_of(tick, plan->columns, sources + place, scratch));
    grow_older(tick, plan, memory);
    begin_row(tick, plan, row);
    for (size_t place = 0; place < plan->columns; place++)
        advance_column(tick, plan, memory, place, column_of(tick, plan->columns, place, scratch), row);
}

/* Points into ``data``; 0 if it is not a plan. */
static int read_plan(Plan *plan, const char *data, size_t size)
{
    if (size < sizeof(Shape))
        return 0;
    memcpy(&plan->shape, data, sizeof(Shape));
    const Shape *shape = &plan->shape;
    if (shape->sources < 0 || shape->sources > 255 || shape->derived < 0 || shape->derived > 255 || shape->metrics < 1
        || shape->window < 1 || shape->window > 255 || shape->counted < 1 || shape->counted > shape->window
        || shape->plateau < 0 || shape->plateau > shape->window || shape->names_size < 0 || shape->depth < 1
        || (shape->order != 0 && shape->order != 1) || (shape->bursts != 0 && shape->bursts != BURST_FIGURES))
        return 0;
    size_t derived = (size_t)shape->derived, sources = (size_t)shape->sources;
    plan->columns = sources + derived;
    if (size != sizeof(Shape) + derived * (sizeof(double) + sizeof(Derived)) + 4 * sources)
        return 0;
    plan->taus = (const double *)(data += sizeof(Shape));
    plan->sources = (const int32_t *)(data += derived * sizeof(double));
    plan->formulas = (const Derived *)(data += sources * sizeof(int32_t));
    for (size_t i = 0; i < sources; i++)
        if (plan->sources[i] < 0 || plan->sources[i] >= shape->metrics)
            return 0;
    for (size_t i = 0; i < derived; i++)
        for (int part = 0; part < MOST_PARTS; part++)
            if (plan->formulas[i].parts[part] < (needs(&plan->formulas[i], part) ? 0 : NO_PART)
                || plan->formulas[i].parts[part] >= shape->metrics)
                return 0;
    return 1;
}
