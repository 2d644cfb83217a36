/* Replies are matched with what was sent: InFlight.confirm, but for a catch-up. */

/* The oldest of what was sent, as a tuple; None when nothing was. NULL: an exception. */
static PyObject *oldest_expected(PyObject *expected)
{
    int any = PyObject_IsTrue(expected);
    return any < 0 ? NULL : any ? PyObject_CallMethodObjArgs(expected, s_popleft, NULL) : Py_NewRef(Py_None);
}

/* (kind, reply) of a reply that acknowledges no frame. ``window`` is None where no frame was expected. */
static PyObject *answer_of(PyObject *flight, PyObject *window, PyObject *number, PyObject *reply)
{
    PyObject *refused = window == Py_None ? Py_NewRef(Py_None) : PyTuple_Pack(2, window, number);
    PyObject *kind = window == Py_None ? Py_NewRef(number) : PyLong_FromLong(0), *answer = NULL; /* in_flight.FRAME */
    if (kind && set_object(flight, s__refused, refused))
        answer = PyTuple_Pack(2, kind, reply);
    Py_XDECREF(kind);
    return answer;
}

/* One reply: None when it acknowledges a frame, else (kind, reply); ``bytes`` are those in flight. */
static PyObject *confirm_one(PyObject *flight, PyObject *token, PyObject *reply, int64_t *bytes)
{
    if (!PyTuple_Check(token) || PyTuple_Size(token) != 4) {
        PyErr_SetString(PyExc_TypeError, "what is expected is a tuple of four");
        return NULL;
    }
    PyObject *window = PyTuple_GetItem(token, 0), *number = PyTuple_GetItem(token, 1);
    int is_frame = window != Py_None;
    *bytes -= PyLong_AsLongLong(PyTuple_GetItem(token, 3));
    if (!is_frame) {
        long long kind = PyLong_AsLongLong(number);
        if (PyErr_Occurred())
            return NULL;
        is_frame = kind == 0;
    }
    if (!PyBytes_CheckExact(reply) || !is_frame)
        return answer_of(flight, window, number, reply);
    if (window == Py_None)
        return Py_NewRef(Py_None);
    return PyObject_CallMethodObjArgs(window, s_acknowledge, number, PyTuple_GetItem(token, 2), reply, NULL);
}

PyDoc_STRVAR(confirm_doc,
"confirm(in_flight, replies, surplus) -> answer\n\n"
"InFlight.confirm without a catch-up. ``surplus`` is in_flight._SURPLUS.");

static PyObject *confirm(PyObject *module, PyObject *arguments)
{
    PyObject *flight, *replies, *surplus, *expected, *reply, *answer = Py_NewRef(Py_None);
    int64_t bytes;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO", &flight, &replies, &surplus) || !get_number(flight, s_bytes, &bytes)
        || !(expected = PyObject_GetAttr(flight, s_expected))) {
        Py_DECREF(answer);
        return NULL;
    }
    if (!PyIter_Check(replies)) {
        PyErr_SetString(PyExc_TypeError, "replies are an iterator");
        Py_CLEAR(answer);
    }
    while (answer == Py_None && (reply = PyIter_Next(replies))) {
        PyObject *token = oldest_expected(expected);
        Py_DECREF(answer);
        answer = token ? confirm_one(flight, token == Py_None ? surplus : token, reply, &bytes) : NULL;
        Py_XDECREF(token);
        Py_DECREF(reply);
    }
    Py_DECREF(expected);
    if (answer && !PyErr_Occurred() && set_number(flight, s_bytes, bytes))
        return answer;
    Py_XDECREF(answer);
    return NULL;
}
