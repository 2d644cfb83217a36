/* One frame of the filter in one native call: smooth it, keep its decision inputs, and write the commands of both.

   State is moved in place; what is answered are bytes of their own, so that a state may take its next frame before they
   are sent (docs/decisions/0040). Nothing is changed unless everything fits. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "smoothing.h"
#include "order.h"
#include "inputs.h"

/* The header of a smoothed record: acquisition.wire.smoothed.HEADER */
enum { HEADER = 96, EXCEPTIONS_AT = 12, INPUTS_SIZE_AT = 36, EPOCH_AT = 48, WALL_AT = 72, MONOTONIC_AT = 80 };
enum { MOST_DIGITS = 24 };

enum { PLANES_BUFFER, NUMBERS, VALUES, CODES, EXCEPTIONS, TAUS, HEAD, IDS, PREFIX, TAIL, BUFFERS };
enum { MEMORY, PLAN, ROW_PREFIX, INPUTS_BUFFERS };

/* The decision inputs of the frame. */
typedef struct {
    Py_buffer given[INPUTS_BUFFERS];
    int held; /* whether the buffers are, and the frame has inputs */
    Plan plan;
    Memory memory;
    Tick tick;
    unsigned long long rows_at;
    char *scratch;
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

static char *put_bytes(char *at, const void *data, size_t size)
{
    memcpy(at, data, size);
    return at + size;
}

static char *put_buffer(char *at, const Py_buffer *buffer)
{
    return put_bytes(at, buffer->buf, (size_t)buffer->len);
}

/* The SET command with room for planes and exceptions, which ``planes_at`` points to. */
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

/* The SETRANGE command with room for the row, which ``row`` points to; None without inputs. */
static PyObject *begin_row_command(const Inputs *inputs, char **row)
{
    if (!inputs->held) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    size_t size = row_size(&inputs->plan, inputs->tick.capacity);
    unsigned long long place = inputs->tick.step % (uint64_t)inputs->plan.shape.depth;
    char offset[MOST_DIGITS], digits[4 * MOST_DIGITS];
    int written = PyOS_snprintf(offset, sizeof offset, "%llu", inputs->rows_at + place * size);
    size_t length = (size_t)PyOS_snprintf(digits, sizeof digits, "$%d\r\n%s\r\n$%zu\r\n", written, offset, size);
    PyObject *made =
        PyBytes_FromStringAndSize(NULL, inputs->given[ROW_PREFIX].len + (Py_ssize_t)(length + size) + 2);
    if (made) {
        *row = put_bytes(put_buffer(PyBytes_AsString(made), &inputs->given[ROW_PREFIX]), digits, length);
        memcpy(*row + size, "\r\n", 2);
    }
    return made;
}

typedef struct {
    Exception *exceptions;
    Sample *old;
    float *alpha;
} Room;

/* Everything is checked and there is room for all of it. */
static PyObject *move(Frame *frame, Inputs *inputs, const Py_buffer *given, int raw, Room room, size_t count)
{
    char *planes_at, *row = NULL;
    const Memory *memory = inputs->held ? &inputs->memory : NULL;
    PyObject *record = begin_record(given, memory, raw, count, &planes_at);
    PyObject *row_command = record ? begin_row_command(inputs, &row) : NULL;
    if (!row_command) {
        Py_XDECREF(record);
        return NULL;
    }
    if (inputs->held)
        take_sources(&inputs->tick, &inputs->plan, inputs->scratch);
    size_t unused = advance_frame(frame, room.exceptions, count, room.old, room.alpha);
    char *at = put_buffer(planes_at, &given[PLANES_BUFFER]);
    at = put_bytes(at, room.exceptions, count * sizeof(Exception));
    put_buffer(at, &given[TAIL]);
    if (inputs->held) {
        advance_inputs(&inputs->tick, &inputs->plan, memory, inputs->scratch, row);
        char *section = planes_at - raw * given[VALUES].len - given[IDS].len - (Py_ssize_t)memory->section_size;
        memcpy(section, memory->section, memory->section_size);
    }
    return Py_BuildValue("y#nNN", (const char *)room.exceptions, (Py_ssize_t)(count * sizeof(Exception)),
                         (Py_ssize_t)unused, record, row_command);
}

static PyObject *run(Frame *frame, Inputs *inputs, const Py_buffer *given, int raw)
{
    size_t n = frame->samples, count = 0;
    PyObject *answer = NULL;
    Room room = {PyMem_Malloc((n ? n : 1) * sizeof(Exception)), NULL,
                 PyMem_Malloc(2 * (frame->tau_count + BLOCK) * sizeof(float))};
    if (inputs->held)
        inputs->scratch = PyMem_Malloc(scratch_size(&inputs->plan, inputs->tick.entities));
    if (room.exceptions) {
        count = find_exceptions(frame->values, frame->codes, n, room.exceptions);
        room.old = PyMem_Malloc((frame->before_count + count + 1) * sizeof(Sample));
    }
    if (!room.old || !room.alpha || (inputs->held && !inputs->scratch))
        PyErr_NoMemory();
    else
        answer = move(frame, inputs, given, raw, room, count);
    PyMem_Free(inputs->scratch);
    PyMem_Free(room.alpha);
    PyMem_Free(room.old);
    PyMem_Free(room.exceptions);
    return answer;
}

PyDoc_STRVAR(advance_doc,
"advance(planes, numbers, values, codes, exceptions, dt, taus, head, ids, raw, prefix, tail, inputs)\n"
" -> (exceptions, unused, record, row)\n\n"
"Move ``planes`` (float32, len(numbers) x N, changed in place; ``numbers`` are their plane ids) by one frame:\n"
"``values`` float32 (N,), ``codes`` uint8 (N,) or empty, ``dt`` seconds since the frame before it, ``taus`` float64\n"
"seconds, one or one for each metric. ``exceptions``: the samples that were not plainly valid in the frame before,\n"
"as acquisition.wire.smoothed.EXCEPTION; answers those of this one, and how many of them were not used.\n"
"``record`` is the SET command of the smoothed record: ``prefix``, its length, ``head`` (the header, in which it\n"
"writes how many exceptions there are and how large the section is), the section, ``ids``, ``raw`` times the values,\n"
"planes, exceptions, and ``tail``.\n"
"``inputs`` is None, or (memory, plan, dt, seconds, step, first, missing, begins, row_prefix, capacity, rows_at): the\n"
"memory of filters.worker.inputs.state.InputsState, moved in place, the plan as pack_plan packs it, seconds since the\n"
"frame before and that a sample stands for, the steps of this tick and of the oldest that is known, how many ticks\n"
"before it never came, whether nothing is known of those before. ``row`` is then the SETRANGE command of the row of\n"
"recent values: ``row_prefix``, its place behind ``rows_at``, and the row with ``capacity`` slots; else None.\n"
"Raises ValueError; nothing is changed then.");

static int read_inputs(PyObject *given, Inputs *inputs)
{
    unsigned long long step, first, missing;
    unsigned int capacity;
    memset(inputs, 0, sizeof *inputs);
    if (given == Py_None)
        return 1;
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

static PyObject *advance(PyObject *module, PyObject *arguments)
{
    Py_buffer given[BUFFERS];
    PyObject *given_inputs, *answer = NULL;
    Inputs inputs;
    Frame frame;
    int raw;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*y*y*dy*y*y*iy*y*O", &given[PLANES_BUFFER], &given[NUMBERS], &given[VALUES],
                          &given[CODES], &given[EXCEPTIONS], &frame.dt, &given[TAUS], &given[HEAD], &given[IDS],
                          &raw, &given[PREFIX], &given[TAIL], &given_inputs))
        return NULL;
    frame.samples = (size_t)given[VALUES].len / 4;
    frame.values = given[VALUES].buf;
    frame.codes = given[CODES].len ? given[CODES].buf : NULL;
    frame.before = given[EXCEPTIONS].buf;
    frame.before_count = (size_t)given[EXCEPTIONS].len / sizeof(Exception);
    frame.taus = given[TAUS].buf;
    frame.tau_count = (size_t)given[TAUS].len / 8;
    if (read_inputs(given_inputs, &inputs)) {
        const char *wrong = raw < 0 || raw > 8 ? "there are too many raw planes" : fault(&frame, given);
        if (!wrong && !place_planes(&frame.planes, given[PLANES_BUFFER].buf, frame.samples, &given[NUMBERS]))
            wrong = "numbers must be of different known planes, the mean among them";
        if (!wrong && inputs.held)
            wrong = inputs_fault(&inputs, &frame, given);
        if (wrong)
            PyErr_SetString(PyExc_ValueError, wrong);
        else
            answer = run(&frame, &inputs, given, raw);
    }
    for (int i = 0; inputs.held && i < INPUTS_BUFFERS; i++)
        PyBuffer_Release(&inputs.given[i]);
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&given[i]);
    return answer;
}

static PyMethodDef methods[] = {{"advance", advance, METH_VARARGS, advance_doc}, {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_step", "The step of the filter in C; see filters.worker.step.native.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__step(void)
{
    return PyModuleDef_Init(&definition);
}
