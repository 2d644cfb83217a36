/* Arguments of one native call, and checks that they fit together. */

enum { PLANES_BUFFER, NUMBERS, VALUES, CODES, EXCEPTIONS, TAUS, HEAD, IDS, PREFIX, TAIL, BUFFERS };
enum { MEMORY, PLAN, ROW_PREFIX, INPUTS_BUFFERS };

/* The decision inputs of the frame. */
typedef struct {
    Py_buffer given[INPUTS_BUFFERS];
    int held; /* whether the buffers are held and the frame has inputs */
    Plan plan;
    Memory memory;
    Tick tick;
    unsigned long long rows_at;
} Inputs;

static int place_planes(Planes *planes, float *data, size_t samples, const Py_buffer *numbers)
{
    const uint8_t *number = numbers->buf;
    memset(planes, 0, sizeof *planes);
    for (Py_ssize_t row = 0; row < numbers->len; row++, data += samples) {
        float **plane = number[row] == MEAN ? &planes->mean : number[row] == VARIANCE ? &planes->variance
                        : number[row] == TREND ? &planes->trend : NULL;
        if (!plane || *plane)
            return 0;
        *plane = data;
    }
    return planes->mean || !numbers->len;
}

static const char *fault(const Frame *frame, const Py_buffer *given)
{
    size_t n = frame->samples;
    if (given[VALUES].len % 4 || (given[CODES].len && (size_t)given[CODES].len != n))
        return "values or codes have the wrong length";
    if ((size_t)given[PLANES_BUFFER].len != (size_t)given[NUMBERS].len * n * 4)
        return "planes have the wrong length";
    if (given[EXCEPTIONS].len % sizeof(Exception))
        return "exceptions have the wrong length";
    if (given[TAUS].len % 8 || !frame->tau_count || n % frame->tau_count)
        return "there must be one tau or one for each metric";
    if (!(frame->dt > 0.0))
        return "dt must be positive";
    if (given[HEAD].len != HEADER)
        return "the header has the wrong length";
    for (size_t k = 0; k < frame->before_count; k++)
        if (frame->before[k].index >= n || (k && frame->before[k].index <= frame->before[k - 1].index))
            return "exceptions must be in order and inside the frame";
    return NULL;
}

static const char *inputs_fault(Inputs *inputs, const Frame *frame, const Py_buffer *given)
{
    Plan *plan = &inputs->plan;
    Tick *tick = &inputs->tick;
    if (!read_plan(plan, inputs->given[PLAN].buf, (size_t)inputs->given[PLAN].len))
        return "this is no plan";
    size_t metrics = (size_t)plan->shape.metrics;
    tick->entities = frame->samples / metrics;
    if (frame->samples % metrics || !frame->planes.mean)
        return "the plan does not fit the frame";
    if (tick->missing >= (uint64_t)plan->shape.window || tick->missing > tick->step)
        return "as many ticks as a window has are missing";
    place_memory(&inputs->memory, plan, inputs->given[MEMORY].buf, tick->entities);
    if (inputs->memory.size != (size_t)inputs->given[MEMORY].len)
        return "the state does not fit the plan and the frame";
    for (size_t e = 0; e < tick->entities; e++)
        if (inputs->memory.slots[e] >= tick->capacity)
            return "a slot lies outside the row";
    const char *head = given[HEAD].buf;
    memcpy(&tick->life, head + EPOCH_AT, 4);
    memcpy(&tick->wall, head + WALL_AT, 8);
    memcpy(&tick->monotonic, head + MONOTONIC_AT, 8);
    tick->values = frame->values;
    tick->codes = frame->codes;
    tick->means = frame->planes.mean;
    return NULL;
}

/* Decision inputs passed by Python, see ``advance``; 0 with an error set if they are invalid. */
static int read_inputs(PyObject *given, Inputs *inputs)
{
    unsigned long long step, first, missing;
    unsigned int capacity;
    memset(inputs, 0, sizeof *inputs);
    if (given == Py_None)
        return 1;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "inputs must be a tuple or None");
        return 0;
    }
    Tick *tick = &inputs->tick;
    if (!PyArg_ParseTuple(given, "w*y*dfKKKpy*IK", &inputs->given[MEMORY], &inputs->given[PLAN], &tick->dt,
                          &tick->seconds, &step, &first, &missing, &tick->begins, &inputs->given[ROW_PREFIX],
                          &capacity, &inputs->rows_at))
        return 0;
    tick->step = step;
    tick->first = first;
    tick->missing = missing;
    tick->capacity = capacity;
    inputs->held = 1;
    return 1;
}

static void release(Py_buffer *buffers, int count)
{
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&buffers[i]);
}
