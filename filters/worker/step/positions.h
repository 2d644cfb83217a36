/* The command of a commit for the positions of its states: filters.worker.partitions.partition.write_positions. */

typedef struct {
    char *at;    /* NULL while only measuring */
    size_t size;
} Written;

static void put_in(Written *to, const void *data, size_t size)
{
    if (to->at)
        to->at = put_bytes(to->at, data, size);
    to->size += size;
}

/* ``mark``, a number and the end of the line: like snprintf, which takes longer than everything else. */
static void put_number(Written *to, char mark, size_t number)
{
    char digits[MOST_DIGITS], *at = digits + sizeof digits;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    *--at = mark;
    put_in(to, at, (size_t)(digits + sizeof digits - at));
}

static void write_word(Written *to, const void *data, size_t size)
{
    put_number(to, '$', size);
    put_in(to, data, size);
    put_in(to, "\r\n", 2);
}

/* Returns 0 with an error set if this is not a state with a member. */
static int write_position(Written *to, PyObject *member, PyObject *state)
{
    Py_buffer counts;
    char *name;
    Py_ssize_t size;
    PyObject *track = PyObject_GetAttr(state, s_track);
    int done = track && !PyBytes_AsStringAndSize(member, &name, &size) && !PyObject_GetBuffer(track, &counts, PyBUF_SIMPLE);
    if (done) {
        write_word(to, name, (size_t)size);
        write_word(to, counts.buf, (size_t)counts.len);
        PyBuffer_Release(&counts);
    }
    Py_XDECREF(track);
    return done;
}

/* The whole command, called twice: first to measure, then to write. */
static int write_command(Written *to, const char *key, Py_ssize_t key_size, PyObject *states)
{
    PyObject *member, *state;
    Py_ssize_t at = 0;
    put_number(to, '*', 2 + 2 * (size_t)PyDict_Size(states));
    put_in(to, key, (size_t)key_size);
    while (PyDict_Next(states, &at, &member, &state))
        if (!write_position(to, member, state))
            return 0;
    return 1;
}

PyDoc_STRVAR(write_positions_doc,
"write_positions(key, states) -> command\n\n"
"The packed HSET of the positions of ``states``, a dict of filters.worker.states.state.State by member; ``key`` are its packed\n"
"first two words.");

static PyObject *write_positions(PyObject *module, PyObject *arguments)
{
    const char *key;
    Py_ssize_t key_size;
    PyObject *states, *made;
    Written to = {NULL, 0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#O!", &key, &key_size, &PyDict_Type, &states)
        || !write_command(&to, key, key_size, states))
        return NULL;
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)to.size);
    if (!made)
        return NULL;
    to.at = PyBytes_AsString(made);
    if (!write_command(&to, key, key_size, states))
        Py_CLEAR(made);
    return made;
}
