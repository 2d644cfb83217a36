/* All frames of a turn in one call: those of a state are a run (stepper.h); Python gets the rest that do not follow. */

typedef struct {
    PyObject *state;   /* borrowed: held by its frames */
    PyObject *stepper; /* NULL: none */
    size_t first, last, count;
} Run;

/* The frames of a turn, in runs: ``next`` leads from each frame of a run to the next one. */
typedef struct {
    PyObject *accepted;
    size_t count, runs;
    Run *run;
    size_t *next, *table; /* of runs by state, from 1 on; 0: free */
    PyObject **frames;    /* of one run */
    size_t mask;
} Turn;

static PyObject *part(const Turn *turn, size_t i, int at)
{
    return PyTuple_GetItem(PyList_GetItem(turn->accepted, (Py_ssize_t)i), at);
}

static void free_turn(Turn *turn)
{
    for (size_t i = 0; i < turn->runs; i++)
        Py_XDECREF(turn->run[i].stepper);
    PyMem_Free(turn->run);
    PyMem_Free(turn->next);
    PyMem_Free(turn->table);
    PyMem_Free(turn->frames);
}

static int is_accepted(PyObject *each)
{
    if (!PyTuple_Check(each) || PyTuple_Size(each) <= DATA_AT)
        return 0;
    PyObject *data = PyTuple_GetItem(each, DATA_AT);
    return PyBytes_Check(data) && (size_t)PyBytes_Size(data) >= sizeof(FrameHeader);
}

/* Append a frame to those of its state; 0 with an error set. */
static int add_frame(Turn *turn, size_t i)
{
    PyObject *state = part(turn, i, STATE_AT);
    size_t place = ((size_t)state >> 4) * 0x9e3779b1u & turn->mask;
    while (turn->table[place] && turn->run[turn->table[place] - 1].state != state)
        place = (place + 1) & turn->mask;
    if (turn->table[place]) {
        Run *run = &turn->run[turn->table[place] - 1];
        run->last = turn->next[run->last] = i;
        run->count++;
        return 1;
    }
    PyObject *stepper = PyObject_GetAttr(state, s_stepper);
    if (!stepper)
        return 0;
    if (!PyObject_TypeCheck(stepper, (PyTypeObject *)stepper_type)) {
        Py_DECREF(stepper);
        stepper = NULL;
    }
    Run run = {state, stepper, i, i, 1};
    turn->run[turn->runs] = run;
    turn->table[place] = ++turn->runs;
    return 1;
}

/* Returns 0 with an error set if these are not accepted frames, or memory is exhausted. */
static int make_turn(Turn *turn, PyObject *accepted)
{
    size_t places = 4, count = (size_t)PyList_Size(accepted);
    while (places < 2 * count)
        places *= 2;
    memset(turn, 0, sizeof *turn);
    turn->accepted = accepted;
    turn->count = count;
    turn->mask = places - 1;
    turn->run = PyMem_Malloc((count + 1) * sizeof *turn->run);
    turn->next = PyMem_Malloc((count + 1) * sizeof *turn->next);
    turn->frames = PyMem_Malloc((count + 1) * sizeof *turn->frames);
    turn->table = PyMem_Calloc(places, sizeof *turn->table);
    if (!turn->run || !turn->next || !turn->frames || !turn->table) {
        PyErr_NoMemory();
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_accepted(PyList_GetItem(accepted, (Py_ssize_t)i))) {
            PyErr_SetString(PyExc_ValueError, "this is no accepted frame, or it is shorter than its header");
            return 0;
        }
        if (!add_frame(turn, i))
            return 0;
    }
    return 1;
}

/* Number of frames of a run taken by its stepper; their commands go to the batch. -1 with an error set. */
static Py_ssize_t step_run(const Turn *turn, const Run *run, Room *room, double now, double moment)
{
    Py_ssize_t done = -1;
    if (!run->stepper)
        return 0;
    for (size_t k = 0, i = run->first; k < run->count; k++, i = turn->next[i])
        turn->frames[k] = part(turn, i, DATA_AT);
    PyObject *batch = part(turn, run->first, BATCH_AT);
    PyObject *records = PyObject_GetAttr(batch, s_records);
    PyObject *rows = records ? PyObject_GetAttr(batch, s_extra) : NULL;
    if (rows && PyDict_Check(records) && PyList_Check(rows))
        done = step_frames((Stepper *)run->stepper, turn->frames, run->count, room, now, moment, records, rows);
    else if (rows)
        PyErr_SetString(PyExc_TypeError, "a batch has a dict of records and a list of other commands");
    Py_XDECREF(rows);
    Py_XDECREF(records);
    return done;
}

/* Append the frames of a run from ``done`` on, if any, to ``left`` as a list; 0 with an error set. */
static int leave(const Turn *turn, const Run *run, size_t done, PyObject *left)
{
    if (done == run->count)
        return 1;
    PyObject *rest = PyList_New(0);
    int added = rest != NULL;
    for (size_t k = 0, i = run->first; added && k < run->count; k++, i = turn->next[i])
        if (k >= done)
            added = !PyList_Append(rest, PyList_GetItem(turn->accepted, (Py_ssize_t)i));
    added = added && !PyList_Append(left, rest);
    Py_XDECREF(rest);
    return added;
}

PyDoc_STRVAR(run_all_doc,
"run_all(accepted, now, moment) -> left\n\n"
"Step over the frames of a list of filters.worker.partitions.batch.Accepted, those of one state in their order, up to the\n"
"first that does not simply follow the one before it. The SET commands of their records go to ``records`` of the\n"
"batch by their prefix, without those that a later frame of the same run replaces, the SETRANGE commands of rows of\n"
"recent values and of seeds to its ``extra``. ``left`` has a list for each state that is not done: its first\n"
"frame that does not follow, and all behind it. ``now`` is the time of the record, ``moment`` CLOCK_MONOTONIC.\n"
"Raises ValueError for what is no accepted frame; nothing is changed then.");

static PyObject *run_all(PyObject *module, PyObject *arguments)
{
    PyObject *accepted, *left = NULL;
    double now, moment;
    Turn turn;
    Room room = {0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!dd", &PyList_Type, &accepted, &now, &moment))
        return NULL;
    int fine = make_turn(&turn, accepted) && (left = PyList_New(0));
    for (size_t i = 0; fine && i < turn.runs; i++) {
        Py_ssize_t done = step_run(&turn, &turn.run[i], &room, now, moment);
        fine = done >= 0 && leave(&turn, &turn.run[i], (size_t)done, left);
    }
    free_room(&room);
    free_turn(&turn);
    if (!fine)
        Py_CLEAR(left);
    return left;
}
