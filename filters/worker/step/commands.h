/* Advances the state by a frame, and writes the commands of its record and of its row of recent values. */

enum { MOST_DIGITS = 24 };

static char *put_bytes(char *at, const void *data, size_t size)
{
    memcpy(at, data, size);
    return at + size;
}

static char *put_buffer(char *at, const Py_buffer *buffer)
{
    return put_bytes(at, buffer->buf, (size_t)buffer->len);
}

/* The SET command with room for planes and exceptions at ``planes_at``. */
static PyObject *begin_record(const Py_buffer *given, const Memory *memory, int raw, size_t exceptions, char **planes_at)
{
    size_t section = memory ? memory->section_size : 0, after = exceptions * sizeof(Exception);
    size_t planes = (size_t)raw * (size_t)given[VALUES].len + (size_t)given[PLANES_BUFFER].len;
    size_t size = HEADER + section + (size_t)given[IDS].len + planes + after;
    char digits[MOST_DIGITS];
    size_t length = (size_t)PyOS_snprintf(digits, sizeof digits, "%zu\r\n", size);
    PyObject *made = PyBytes_FromStringAndSize(NULL, given[PREFIX].len + (Py_ssize_t)(length + size) + given[TAIL].len);
    if (!made)
        return NULL;
    char *at = put_bytes(put_buffer(PyBytes_AsString(made), &given[PREFIX]), digits, length);
    uint32_t counts[2] = {(uint32_t)exceptions, (uint32_t)section};
    put_buffer(at, &given[HEAD]);
    memcpy(at + EXCEPTIONS_AT, counts, 4);
    memcpy(at + INPUTS_SIZE_AT, counts + 1, 4);
    at = put_buffer(at + HEADER + section, &given[IDS]);
    for (int i = 0; i < raw; i++)
        at = put_buffer(at, &given[VALUES]);
    *planes_at = at;
    return made;
}

/* A SETRANGE command of the ring with room for ``size`` bytes at ``offset``; ``data`` points to it. */
static PyObject *begin_setrange(const Inputs *inputs, unsigned long long offset, size_t size, char **data)
{
    char number[MOST_DIGITS], digits[4 * MOST_DIGITS];
    int written = PyOS_snprintf(number, sizeof number, "%llu", offset);
    size_t length = (size_t)PyOS_snprintf(digits, sizeof digits, "$%d\r\n%s\r\n$%zu\r\n", written, number, size);
    PyObject *made =
        PyBytes_FromStringAndSize(NULL, inputs->given[ROW_PREFIX].len + (Py_ssize_t)(length + size) + 2);
    if (made) {
        *data = put_bytes(put_buffer(PyBytes_AsString(made), &inputs->given[ROW_PREFIX]), digits, length);
        memcpy(*data + size, "\r\n", 2);
    }
    return made;
}

/* The command with room for the row. */
static PyObject *begin_row_command(const Inputs *inputs, char **row)
{
    size_t size = row_size(&inputs->plan, inputs->tick.capacity);
    unsigned long long place = inputs->tick.step % (uint64_t)inputs->plan.shape.depth;
    return begin_setrange(inputs, inputs->rows_at + place * size, size, row);
}

/* The command that writes a seed: the averages after this step, with their ids, at place ``step / every % seeds``
   before the rows (acquisition.wire.records.recent.encode_seed). */
static PyObject *seed_command(const Inputs *inputs, const float *means, unsigned int every, unsigned int seeds)
{
    const Plan *plan = &inputs->plan;
    const Tick *tick = &inputs->tick;
    size_t n = tick->entities, m = (size_t)plan->shape.metrics, sources = (size_t)plan->shape.sources;
    size_t size = seed_size(plan, tick->capacity), floats = plan->columns * tick->capacity;
    char *data;
    PyObject *made = begin_setrange(inputs, inputs->rows_at - (seeds - tick->step / every % seeds) * size, size, &data);
    if (!made)
        return NULL;
    uint32_t unknown = NOT_VALID;
    memset(data + size - 4, 0, 4);
    memcpy(data, &tick->step, SEED_HEADER);
    for (size_t i = 0; i < floats; i++)
        memcpy(data + SEED_HEADER + 4 * i, &unknown, 4);
    for (size_t place = 0; place < plan->columns; place++) {
        const float *derived = inputs->memory.derived + DERIVED_MEAN * (size_t)plan->shape.derived * n;
        char *column = data + SEED_HEADER + 4 * place * tick->capacity;
        for (size_t e = 0; e < n; e++)
            memcpy(column + 4 * (size_t)inputs->memory.slots[e],
                   place < sources ? means + e * m + (size_t)plan->sources[place] : derived + (place - sources) * n + e,
                   4);
    }
    return made;
}

/* Destination of the exceptions of a frame, and working memory, for frames with ``samples``, ``taus`` time constants
   and ``size`` bytes of scratch. */
typedef struct {
    Exception *exceptions; /* as many as samples in the frame */
    Sample *old;           /* of the frame and the previous one, plus one */
    float *alpha;
    char *scratch; /* of the inputs */
    size_t samples, taus, size;
} Room;

static void free_room(Room *room)
{
    PyMem_Free(room->scratch);
    PyMem_Free(room->alpha);
    PyMem_Free(room->old);
    PyMem_Free(room->exceptions);
    memset(room, 0, sizeof *room);
}

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Enlarge a room, initially zero, for frames like this one; 0 with an error set if memory is exhausted. */
static int make_room(Room *room, const Frame *frame, const Inputs *inputs)
{
    size_t size = inputs->held ? scratch_size(&inputs->plan, inputs->tick.entities) : 1;
    if (room->size >= size && room->samples >= frame->samples && room->taus >= frame->tau_count)
        return 1;
    Room larger = {.samples = greater(room->samples, frame->samples), .taus = greater(room->taus, frame->tau_count),
                   .size = greater(room->size, size)};
    free_room(room);
    larger.exceptions = PyMem_Malloc((larger.samples + 1) * sizeof(Exception));
    larger.old = PyMem_Malloc((2 * larger.samples + 1) * sizeof(Sample));
    larger.alpha = PyMem_Malloc(2 * (larger.taus + BLOCK) * sizeof(float));
    larger.scratch = PyMem_Malloc(larger.size);
    *room = larger;
    if (room->exceptions && room->old && room->alpha && room->scratch)
        return 1;
    free_room(room);
    PyErr_NoMemory();
    return 0;
}

/* Results of a frame: number of exceptions, and of those that failed a check; the commands, NULL if
   there is none. */
typedef struct {
    size_t exceptions, invalid;
    PyObject *record, *row;
} Moved;

/* Advance the state by a checked frame. Without ``wanted`` its record is not needed. Returns 0 with
   an error set, and nothing changed, if there is no memory for the commands. */
static int move(const Frame *frame, Inputs *inputs, const Py_buffer *given, int raw, const Room *room, int wanted,
                Moved *moved)
{
    char *planes_at = NULL, *row = NULL;
    const Memory *memory = inputs->held ? &inputs->memory : NULL;
    size_t count = find_exceptions(frame->values, frame->codes, frame->samples, room->exceptions);
    moved->exceptions = count;
    moved->record = wanted ? begin_record(given, memory, raw, count, &planes_at) : NULL;
    moved->row = inputs->held ? begin_row_command(inputs, &row) : NULL;
    if ((wanted && !moved->record) || (inputs->held && !moved->row)) {
        Py_XDECREF(moved->record);
        Py_XDECREF(moved->row);
        return 0;
    }
    if (inputs->held)
        take_sources(&inputs->tick, &inputs->plan, room->scratch);
    moved->invalid = advance_frame(frame, room->exceptions, count, room->old, room->alpha);
    if (inputs->held)
        advance_inputs(&inputs->tick, &inputs->plan, memory, room->scratch, row);
    if (wanted) {
        char *section = planes_at - raw * given[VALUES].len - given[IDS].len;
        if (memory)
            memcpy(section - memory->section_size, memory->section, memory->section_size);
        char *at = put_buffer(planes_at, &given[PLANES_BUFFER]);
        at = put_bytes(at, room->exceptions, count * sizeof(Exception));
        put_buffer(at, &given[TAIL]);
    }
    return 1;
}
