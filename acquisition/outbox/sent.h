/* Commands of the next frames: InFlight.take, as far as they are plain. */

enum { MOST_IN_FLIGHT = 1 << 18, MOST_PER_SEND = 1 << 16, LENGTH_DIGITS = 24 };

typedef struct {
    PyObject *flight, *parts, *outbox, *index, *buffer, *recent, *windows, *expected, *head;
    int64_t number, end, mask, bytes;
    double newest, oldest;
} Outgoing;

/* 1: nothing is shed, held back or played back; 0: the definition goes on, or there is an exception. */
static int is_plain(Outgoing *out, double now, double start)
{
    PyObject *overload = PyObject_GetAttr(out->flight, s__overload), *state = NULL, *catch_up = NULL;
    int catching = 1, plain = 0;
    double share, speed, old;
    if (overload && (state = PyObject_GetAttr(overload, s_state))
        && (catch_up = PyObject_GetAttr(out->flight, s_catch_up))
        && get_double(state, s_share, &share) && get_double(overload, s_newest, &out->newest)
        && get_truth(catch_up, s_is_active, &catching) && get_double(catch_up, s_speed, &speed)
        && get_double(out->flight, s__old, &old)) {
        out->oldest = now - old;
        plain = share >= 1.0 && !catching && speed == start;
    }
    Py_XDECREF(overload);
    Py_XDECREF(state);
    Py_XDECREF(catch_up);
    return plain;
}

static int read_outgoing(Outgoing *out)
{
    PyObject *flight = out->flight;
    int64_t first;
    if (!(out->outbox = PyObject_GetAttr(flight, s__outbox)) || !(out->index = PyObject_GetAttr(out->outbox, s__index))
        || !(out->recent = PyObject_GetAttr(out->outbox, s__recent))
        || !(out->windows = PyObject_GetAttr(out->outbox, s_windows))
        || !(out->buffer = PyObject_GetAttr(out->index, s__buffer))
        || !(out->expected = PyObject_GetAttr(flight, s_expected)) || !(out->head = PyObject_GetAttr(flight, s__head))
        || !get_number(out->index, s_first, &first) || !get_number(out->index, s_end, &out->end)
        || !get_number(out->index, s__mask, &out->mask) || !get_number(flight, s__index, &out->number)
        || !get_number(flight, s_bytes, &out->bytes))
        return 0;
    if (out->number < first)
        out->number = first;
    return PyBytes_Check(out->head) && PyByteArray_Check(out->buffer) && PyDict_Check(out->windows);
}

/* *head* length \r\n *data* \r\n */
static PyObject *command_of(PyObject *head, PyObject *data)
{
    char digits[LENGTH_DIGITS];
    Py_ssize_t before = PyBytes_Size(head), size = PyBytes_Size(data);
    int width = snprintf(digits, sizeof digits, "%zd\r\n", size);
    PyObject *command = PyBytes_FromStringAndSize(NULL, before + width + size + 2);
    if (command) {
        char *at = PyBytes_AsString(command);
        memcpy(at, PyBytes_AsString(head), (size_t)before);
        memcpy(at + before, digits, (size_t)width);
        memcpy(at + before + width, PyBytes_AsString(data), (size_t)size);
        memcpy(at + before + width + size, "\r\n", 2);
    }
    return command;
}

static int expect(Outgoing *out, PyObject *window, const Record *record, PyObject *data)
{
    PyObject *command = command_of(out->head, data), *answer = NULL;
    PyObject *expected = Py_BuildValue("OKKn", window, (unsigned long long)record->sequence,
                                       (unsigned long long)record->made, PyBytes_Size(data));
    if (command && expected && PyList_Append(out->parts, command) == 0)
        answer = PyObject_CallMethodObjArgs(out->expected, s_append, expected, NULL);
    Py_XDECREF(command);
    Py_XDECREF(expected);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* One entry: 1 when it is done, 0 when the definition goes on with it, or with an exception. ``sent`` grows. */
static int take_one(Outgoing *out, int64_t *sent)
{
    Record record;
    int64_t next, highest, restamp, sequence;
    PyObject *key, *window, *data;
    if (!read_entry(out->buffer, out->mask, out->number, &record) || record.forgotten || record.shed)
        return 0;
    if (!(key = PyLong_FromUnsignedLong(record.set)))
        return 0;
    window = PyDict_GetItemWithError(out->windows, key);
    Py_DECREF(key);
    sequence = (int64_t)record.sequence;
    if (!window || !get_number(window, s_next, &next) || !get_number(window, s_highest, &highest)
        || !get_number(window, s__restamp, &restamp) || sequence != next || sequence <= restamp || sequence <= highest
        || record.at > out->newest || record.at < out->oldest)
        return 0;
    if (!(data = take_recent(out->recent, out->number)))
        return 0;
    int done = set_number(window, s_highest, sequence) && set_number(window, s_next, sequence + 1)
               && expect(out, window, &record, data);
    out->bytes += PyBytes_Size(data);
    *sent += PyBytes_Size(data);
    Py_DECREF(data);
    return done;
}

PyDoc_STRVAR(take_doc,
"take(in_flight, parts, now, start) -> done\n\n"
"Add the commands of the next frames to the list ``parts`` as InFlight.take does, up to the first that is not plain:\n"
"whether all are. ``start`` is catch_up.START.");

static PyObject *take(PyObject *module, PyObject *arguments)
{
    Outgoing out = {0};
    double now, start;
    int64_t sent = 0;
    int all = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO!dd", &out.flight, &PyList_Type, &out.parts, &now, &start))
        return NULL;
    if (is_plain(&out, now, start) && read_outgoing(&out)) {
        while (out.number < out.end && sent < MOST_PER_SEND && out.bytes < MOST_IN_FLIGHT && take_one(&out, &sent))
            out.number++;
        all = out.number == out.end;
        if (!PyErr_Occurred() && set_number(out.flight, s__index, out.number))
            set_number(out.flight, s_bytes, out.bytes);
    }
    Py_XDECREF(out.outbox);
    Py_XDECREF(out.index);
    Py_XDECREF(out.buffer);
    Py_XDECREF(out.recent);
    Py_XDECREF(out.windows);
    Py_XDECREF(out.expected);
    Py_XDECREF(out.head);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(all);
}
