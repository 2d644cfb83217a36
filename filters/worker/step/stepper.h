/* State of the step of one resource set from frame to frame, checked once, so that frames in direct succession
   need no Python between them (docs/decisions/0018).

   ``run_all`` (turn.h) takes frames as long as they follow; for the first that does not, Python takes the state back
   (``state``), does the necessary work, and makes another Stepper. */

typedef struct {
    PyObject_HEAD
    Py_buffer given[BUFFERS]; /* values, codes, exceptions and prefix belong to one frame, and are not held */
    Py_buffer counts;         /* the Track */
    Inputs inputs;
    Planes planes;
    PyObject *prefixes, *exceptions;
    FrameHeader like; /* schema, metrics, entities, interval and epoch of following frames */
    double monotonic, lives_until;
    unsigned int seed_every, seeds;
    int raw;
} Stepper;

static void lend(Py_buffer *buffer, const void *data, size_t size)
{
    buffer->buf = (void *)data;
    buffer->len = (Py_ssize_t)size;
}

/* ``data`` NULL: only its shape matters. */
static Frame frame_of(const Stepper *self, const FrameHeader *head, const uint8_t *data)
{
    const Py_buffer *given = self->given;
    size_t samples = (size_t)head->entities * head->metrics;
    const uint8_t *values = data ? data + sizeof *head + 8 * (size_t)head->entities : NULL;
    Frame frame = {
        .planes = self->planes,
        .values = (const float *)values,
        .codes = head->flags & FLAG_CODES ? values + 4 * samples : NULL,
        .samples = samples,
        .before = (const Exception *)PyBytes_AsString(self->exceptions),
        .before_count = (size_t)PyBytes_Size(self->exceptions) / sizeof(Exception),
        .dt = head->monotonic - self->monotonic,
        .taus = given[TAUS].buf,
        .tau_count = (size_t)given[TAUS].len / sizeof(double),
    };
    return frame;
}

/* Whether a frame needs no work in Python: same rows and columns, no tick missing, nothing due in the ring. */
static int follows(const Stepper *self, const FrameHeader *head, const uint8_t *data, size_t size, double moment)
{
    const FrameHeader *like = &self->like;
    double dt = head->monotonic - self->monotonic;
    if (size != frame_size(head) || head->schema != like->schema || head->metrics != like->metrics
        || head->entities != like->entities || head->interval != like->interval || head->epoch != like->epoch
        || !(dt >= SHORTEST) || memcmp(data + sizeof *head, self->given[IDS].buf, (size_t)self->given[IDS].len))
        return 0;
    return !self->inputs.held
           || (!(dt > GAP * (double)head->interval) && moment < self->lives_until);
}

/* Returns 0 with an error set if memory is exhausted. */
static int add_seed(const Stepper *self, PyObject *rows)
{
    if (!self->inputs.held || self->inputs.tick.step % self->seed_every)
        return 1;
    PyObject *seed = seed_command(&self->inputs, self->planes.mean, self->seed_every, self->seeds);
    int added = seed && !PyList_Append(rows, seed);
    Py_XDECREF(seed);
    return added;
}

static void tick_inputs(Inputs *inputs, const Frame *frame, const FrameHeader *head)
{
    Tick *tick = &inputs->tick;
    tick->step++;
    tick->dt = frame->dt;
    tick->seconds = (float)frame->dt < LONGEST ? (float)frame->dt : LONGEST;
    tick->wall = head->wall;
    tick->monotonic = head->monotonic;
    tick->values = frame->values;
    tick->codes = frame->codes;
}

/* The header of the record, derived from that of the previous one. */
static void write_head(char *record, const FrameHeader *head, double now)
{
    memcpy(record + SEQUENCE_AT, &head->sequence, 8);
    memcpy(record + TICK_AT, &head->tick, 8);
    memcpy(record + WALL_AT, &head->wall, 8);
    memcpy(record + MONOTONIC_AT, &head->monotonic, 8);
    memcpy(record + FILTERED_AT, &now, 8);
}

/* Slot of this record among the kept ticks; as Python's %, never negative. */
static Py_ssize_t slot_of(const Stepper *self, const FrameHeader *head)
{
    int64_t kept = (int64_t)PyTuple_Size(self->prefixes), slot = head->tick % kept;
    return (Py_ssize_t)(slot < 0 ? slot + kept : slot);
}

/* Process one following frame; its commands go to ``records`` and ``rows``. */
static int step_frame(Stepper *self, const FrameHeader *head, const uint8_t *data, const Room *room, int wanted,
                      double now, PyObject *records, PyObject *rows)
{
    Py_buffer *given = self->given;
    Frame frame = frame_of(self, head, data);
    Track *track = self->counts.buf;
    Moved moved;
    char record_head[HEADER];
    PyObject *prefix = PyTuple_GetItem(self->prefixes, slot_of(self, head));
    memcpy(record_head, given[HEAD].buf, HEADER);
    write_head(record_head, head, now);
    Py_buffer of_frame[BUFFERS];
    memcpy(of_frame, given, sizeof of_frame);
    lend(&of_frame[HEAD], record_head, HEADER);
    lend(&of_frame[VALUES], frame.values, 4 * frame.samples);
    lend(&of_frame[PREFIX], PyBytes_AsString(prefix), (size_t)PyBytes_Size(prefix));
    if (self->inputs.held)
        tick_inputs(&self->inputs, &frame, head);
    if (!move(&frame, &self->inputs, of_frame, self->raw, room, wanted, &moved))
        return 0;
    PyObject *exceptions = PyBytes_FromStringAndSize((const char *)room->exceptions,
                                                     (Py_ssize_t)(moved.exceptions * sizeof(Exception)));
    int kept = exceptions && (!moved.record || !PyDict_SetItem(records, prefix, moved.record))
               && (!moved.row || !PyList_Append(rows, moved.row)) && add_seed(self, rows);
    Py_XDECREF(moved.record);
    Py_XDECREF(moved.row);
    if (exceptions) {
        Py_DECREF(self->exceptions);
        self->exceptions = exceptions;
    }
    self->monotonic = head->monotonic;
    if (head->epoch == track->epoch) /* otherwise a newer one with its own counts began in the same read */
        track->invalid += moved.invalid;
    return kept;
}

/* Mark the frames with a record replaced by a later one of these; ``seen`` has a place for each of the kept ticks. Both
   are initially zero. */
static void mark_replaced(const Stepper *self, PyObject *const *frames, size_t count, char *replaced, char *seen)
{
    FrameHeader head;
    for (size_t i = count; i-- > 0;) {
        memcpy(&head, PyBytes_AsString(frames[i]), sizeof head);
        Py_ssize_t slot = slot_of(self, &head);
        replaced[i] = seen[slot];
        seen[slot] = 1;
    }
}

/* Process frames (bytes of at least a header, sound and in order) up to the first that does not directly follow the
   previous one. The SET commands of their records go to the dict ``records`` by their prefix, without those replaced by
   a later frame, the SETRANGE commands of their rows of recent values and of seeds to the list ``rows``. ``now``: time
   of the record; ``moment``: CLOCK_MONOTONIC. Returns the number of these frames, -1 with an error set. */
static Py_ssize_t step_frames(Stepper *self, PyObject *const *frames, size_t count, Room *room, double now,
                              double moment, PyObject *records, PyObject *rows)
{
    FrameHeader head = self->like;
    Frame shape = frame_of(self, &head, NULL);
    char *marks = count > 1 ? PyMem_Calloc(count + (size_t)PyTuple_Size(self->prefixes), 1) : NULL;
    size_t done = 0;
    if (!make_room(room, &shape, &self->inputs) || (count > 1 && !marks)) {
        PyMem_Free(marks);
        PyErr_NoMemory();
        return -1;
    }
    if (marks)
        mark_replaced(self, frames, count, marks, marks + count);
    for (; done < count; done++) {
        const uint8_t *data = (const uint8_t *)PyBytes_AsString(frames[done]);
        memcpy(&head, data, sizeof head);
        if (!follows(self, &head, data, (size_t)PyBytes_Size(frames[done]), moment))
            break;
        if (!step_frame(self, &head, data, room, !(marks && marks[done]), now, records, rows)) {
            PyMem_Free(marks);
            return -1;
        }
    }
    PyMem_Free(marks);
    return (Py_ssize_t)done;
}

PyDoc_STRVAR(state_doc, "state() -> (exceptions, monotonic, step)\n\nWhere it stands, for who goes on without it.");

static PyObject *stepper_state(PyObject *object, PyObject *none)
{
    Stepper *self = (Stepper *)object;
    (void)none;
    return Py_BuildValue("OdK", self->exceptions, self->monotonic, (unsigned long long)self->inputs.tick.step);
}

static const char *stepper_fault(Stepper *self)
{
    Py_buffer *given = self->given;
    FrameHeader *like = &self->like;
    if (given[HEAD].len != HEADER)
        return "the header has the wrong length";
    const char *head = given[HEAD].buf;
    memcpy(&like->metrics, head + METRICS_AT, 2);
    memcpy(&like->entities, head + ENTITIES_AT, 4);
    memcpy(&like->schema, head + SCHEMA_AT, 4);
    memcpy(&like->interval, head + INTERVAL_AT, 4);
    memcpy(&like->epoch, head + EPOCH_AT, 8);
    Frame frame = frame_of(self, like, NULL);
    frame.dt = 1.0;
    lend(&given[VALUES], NULL, 4 * frame.samples);
    lend(&given[EXCEPTIONS], frame.before, (size_t)PyBytes_Size(self->exceptions));
    const char *wrong = fault(&frame, given);
    if (wrong)
        return wrong;
    if (!frame.samples || (size_t)given[IDS].len != 8 * (size_t)like->entities)
        return "the ids do not fit the header";
    if (self->counts.len != sizeof(Track) || !PyTuple_Size(self->prefixes) || self->raw < 0 || self->raw > MAX_PLANES)
        return "this is no track, or there are no prefixes, or too many raw planes";
    if (!place_planes(&self->planes, given[PLANES_BUFFER].buf, frame.samples, &given[NUMBERS]))
        return "numbers must be of different known planes, the mean among them";
    frame.planes = self->planes;
    self->inputs.tick.missing = 0;
    self->inputs.tick.begins = 0;
    if (!self->inputs.held)
        return NULL;
    wrong = inputs_fault(&self->inputs, &frame, given);
    if (!wrong && self->inputs.rows_at / self->seeds < seed_size(&self->inputs.plan, self->inputs.tick.capacity))
        return "there is no room for the seeds before the rows";
    return wrong;
}

static void stepper_dealloc(PyObject *object)
{
    Stepper *self = (Stepper *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; i < BUFFERS; i++)
        if (self->given[i].obj)
            PyBuffer_Release(&self->given[i]);
    for (int i = 0; i < INPUTS_BUFFERS; i++)
        if (self->inputs.given[i].obj)
            PyBuffer_Release(&self->inputs.given[i]);
    if (self->counts.obj)
        PyBuffer_Release(&self->counts);
    Py_XDECREF(self->prefixes);
    Py_XDECREF(self->exceptions);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(stepper_doc,
"Stepper(planes, numbers, exceptions, taus, head, ids, raw, prefixes, tail, track, monotonic, inputs, seed_every,\n"
"        seeds, lives_until)\n\n"
"Arguments as those of ``advance``, as they are after a frame; ``head`` is the header of its record, ``prefixes`` a\n"
"tuple of what SET commands begin with, by slot, ``track`` the memory of a filters.worker.states.sequence.Track, ``monotonic``\n"
"that of the frame. Before the rows there is room for ``seeds`` of averages, one of which is written at every\n"
"``seed_every``-th step. From ``lives_until`` on, CLOCK_MONOTONIC, a frame with inputs is left to Python. Raises ValueError for what does not fit.");

static PyObject *stepper_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *inputs;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Stepper *self = (Stepper *)allocate(type, 0); /* zeroed */
    (void)names;
    if (!self)
        return NULL;
    Py_buffer *given = self->given;
    if (PyArg_ParseTuple(arguments, "w*y*Sy*y*y*iO!y*w*dOIId", &given[PLANES_BUFFER], &given[NUMBERS],
                         &self->exceptions, &given[TAUS], &given[HEAD], &given[IDS], &self->raw, &PyTuple_Type,
                         &self->prefixes, &given[TAIL], &self->counts, &self->monotonic, &inputs, &self->seed_every,
                         &self->seeds, &self->lives_until)) {
        Py_INCREF(self->exceptions);
        Py_INCREF(self->prefixes);
        if (read_inputs(inputs, &self->inputs)) {
            const char *wrong =
                self->seed_every && self->seeds ? stepper_fault(self) : "seed_every and seeds must be positive";
            if (!wrong)
                return (PyObject *)self;
            PyErr_SetString(PyExc_ValueError, wrong);
        }
    } else {
        self->exceptions = self->prefixes = NULL; /* not owned yet */
    }
    Py_DECREF(self);
    return NULL;
}

static PyMethodDef stepper_methods[] = {
    {"state", stepper_state, METH_NOARGS, state_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stepper_slots[] = {
    {Py_tp_doc, (void *)stepper_doc},
    {Py_tp_new, (void *)stepper_new},
    {Py_tp_dealloc, (void *)stepper_dealloc},
    {Py_tp_methods, stepper_methods},
    {0, NULL},
};

static PyType_Spec stepper_spec = {
    .name = "filters.worker.step._step.Stepper",
    .basicsize = sizeof(Stepper),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = stepper_slots,
};
