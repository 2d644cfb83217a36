/* Takes frames of one read in direct succession, as Partition.batch (filters.worker.partitions.partition) any other. */

enum { ENTRY_SIZE = 2, FIELD_SIZE = sizeof ENTRY_FIELD - 1 };

/* The arguments of ``take_followers``. */
typedef struct {
    PyObject *entries, *batch, *states, *heard, *dirty, *accepted, *now, *kind;
    newfunc make;
    Py_ssize_t at;
} Read;

/* The frame in an entry [id, [b"f", data]] (acquisition.wire.keys.ENTRY_FIELD), NULL without one. Borrowed. */
static PyObject *frame_in(PyObject *entry)
{
    PyObject *fields = PyList_Check(entry) && PyList_Size(entry) == ENTRY_SIZE    ? PyList_GetItem(entry, 1)
                       : PyTuple_Check(entry) && PyTuple_Size(entry) == ENTRY_SIZE ? PyTuple_GetItem(entry, 1)
                                                                                   : NULL;
    if (!fields || !PyList_Check(fields) || PyList_Size(fields) < 2)
        return NULL;
    PyObject *name = PyList_GetItem(fields, 0), *data = PyList_GetItem(fields, 1);
    if (!PyBytes_Check(name) || PyBytes_Size(name) != FIELD_SIZE
        || memcmp(PyBytes_AsString(name), ENTRY_FIELD, FIELD_SIZE) || !PyBytes_Check(data)
        || (size_t)PyBytes_Size(data) < sizeof(FrameHeader))
        return NULL;
    return data;
}

/* Whether a frame has the size of the newest one of this state, which was within all limits
   (acquisition.wire.rejected); -1 with an error set. */
static int has_shape(PyObject *state, const FrameHeader *head)
{
    PyObject *known = PyObject_GetAttr(state, s_shape);
    unsigned long long shape = known ? PyLong_AsUnsignedLongLong(known) : 0;
    Py_XDECREF(known);
    return PyErr_Occurred() ? -1 : shape == ((unsigned long long)head->entities << 16 | head->metrics);
}

/* Count a frame if it follows in this state: returns its samples, 0 if not, or -1 with an error set. */
static Py_ssize_t count_in(PyObject *state, PyObject *data)
{
    Py_buffer counts;
    PyObject *track = PyObject_GetAttr(state, s_track);
    Py_ssize_t samples = -1;
    if (track && !PyObject_GetBuffer(track, &counts, PyBUF_WRITABLE)) {
        samples = counts.len != sizeof(Track) ? 0
                                              : (Py_ssize_t)next_frame((const uint8_t *)PyBytes_AsString(data),
                                                                       (size_t)PyBytes_Size(data), counts.buf);
        PyBuffer_Release(&counts);
    }
    Py_XDECREF(track);
    return samples;
}

/* Record the frame as heard, its state for the commit, and the frame for smoothing: 0 with an error set. */
static int accept_frame(const Read *read, PyObject *key, PyObject *state, PyObject *data, Py_ssize_t samples)
{
    PyObject *member = PyObject_GetAttr(state, s_member), *made = NULL;
    PyObject *plain = Py_BuildValue("((OOnOO))", read->batch, state, samples, data, Py_None);
    if (member && plain && !PyDict_SetItem(read->heard, key, read->now) && !PyDict_SetItem(read->dirty, member, state))
        made = read->make((PyTypeObject *)read->kind, plain, NULL);
    int done = made && !PyList_Append(read->accepted, made);
    Py_XDECREF(made);
    Py_XDECREF(plain);
    Py_XDECREF(member);
    return done;
}

/* Take the next frame if it follows, and return its size; 0, or -1 with an error set. */
static Py_ssize_t take_follower(const Read *read)
{
    FrameHeader head;
    PyObject *data = frame_in(PyList_GetItem(read->entries, read->at));
    if (!data)
        return 0;
    memcpy(&head, PyBytes_AsString(data), sizeof head);
    PyObject *key = Py_BuildValue("KI", (unsigned long long)head.host, (unsigned int)head.resource_set);
    PyObject *state = key ? PyDict_GetItemWithError(read->states, key) : NULL;
    int fits = state ? has_shape(state, &head) : PyErr_Occurred() ? -1 : 0;
    Py_ssize_t samples = fits > 0 ? count_in(state, data) : fits;
    if (samples > 0 && !accept_frame(read, key, state, data, samples))
        samples = -1;
    Py_XDECREF(key);
    return samples > 0 ? PyBytes_Size(data) : samples;
}

PyDoc_STRVAR(take_followers_doc,
"take_followers(entries, at, end, batch, states, heard, dirty, now, kind, accepted) -> (at, size)\n\n"
"Take the frames of ``entries`` (a list of those of one read) from ``at`` to ``end``, up to the first that is not sound,\n"
"of samples, of one of ``states`` by (host, resource set) and of its ``shape``, and the next one of its ``track``, which counts it. Of each,\n"
"``heard`` by the same key becomes ``now``, ``dirty`` has its state by ``member``, and ``accepted`` a ``kind``, a tuple\n"
"(batch, state, samples, data, None), more. Answers where it stopped, and the bytes of frames that it has taken.");

static PyObject *take_followers(PyObject *module, PyObject *arguments)
{
    Read read;
    Py_ssize_t end, taken, size = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!nnOO!O!O!OO!O!", &PyList_Type, &read.entries, &read.at, &end, &read.batch,
                          &PyDict_Type, &read.states, &PyDict_Type, &read.heard, &PyDict_Type, &read.dirty, &read.now,
                          &PyType_Type, &read.kind, &PyList_Type, &read.accepted))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)read.kind, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "kind must be a type of tuples");
        return NULL;
    }
    read.make = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    if (read.at < 0 || end > PyList_Size(read.entries)) {
        PyErr_SetString(PyExc_IndexError, "there are not so many entries");
        return NULL;
    }
    for (; read.at < end && (taken = take_follower(&read)); read.at++) {
        if (taken < 0)
            return NULL;
        size += taken;
    }
    return Py_BuildValue("nn", read.at, size);
}
