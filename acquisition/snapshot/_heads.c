/* The headers of many smoothed records in one call; the definition is acquisition.snapshot.reading.heads. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "../wire/agreed.h"
#include "../wire/smoothed_header.h"

static int list_agreed(PyObject *table)
{
    return 1 AGREE_SMOOTHED;
}

static uint64_t number(const uint8_t *at, int size)
{
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

/* Offset of the ids of a valid record, 0 if it is invalid; *rows is their number. */
static int64_t sound(const uint8_t *data, int64_t length, int first, int last, int64_t *rows)
{
    if (length < HEADER || memcmp(data, SMOOTHED_MAGIC, 4) || data[VERSION_AT] < first || data[VERSION_AT] > last)
        return 0;
    int64_t planes = data[PLANE_COUNT_AT], metrics = (int64_t)number(data + METRICS_AT, 2);
    int64_t inputs = (int64_t)number(data + INPUTS_SIZE_AT, 4), entities = (int64_t)number(data + ENTITIES_AT, 4);
    int64_t exceptions = (int64_t)number(data + EXCEPTIONS_AT, 4);
    int64_t listed = HEADER + inputs + 8 * entities + 4 * entities * metrics * planes;
    if (planes < 1 || planes > MAX_PLANES || inputs % 8 || listed + EXCEPTION_SIZE * exceptions != length)
        return 0;
    for (int64_t at = listed; at < length; at += EXCEPTION_SIZE)
        if ((int64_t)number(data + at, 4) >= entities * metrics)
            return 0;
    *rows = entities;
    return HEADER + inputs;
}

/* One value: its header to ``head``, its rows to ``ids``; 1 if it is valid, -1 for an error. */
static int one(PyObject *value, int first, int last, char *head, PyObject **ids)
{
    char *data = "";
    Py_ssize_t length = 0;
    int64_t rows = 0;
    if (value != Py_None && PyBytes_AsStringAndSize(value, &data, &length) < 0)
        return -1;
    memset(head, 0, HEADER);
    memcpy(head, data, length < HEADER ? (size_t)length : HEADER);
    int64_t begin = sound((const uint8_t *)data, length, first, last, &rows);
    *ids = PyBytes_FromStringAndSize(data + begin, 8 * rows);
    return *ids ? begin != 0 : -1;
}

PyDoc_STRVAR(take_apart_doc, "take_apart(values, first, last) -> (heads, sound, ids)\n\nSee acquisition.snapshot.reading.heads.");

static PyObject *take_apart(PyObject *module, PyObject *arguments)
{
    PyObject *values, *answer = NULL;
    int first, last;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oii", &values, &first, &last))
        return NULL;
    Py_ssize_t count = PyList_Size(values);
    if (count < 0)
        return NULL;
    PyObject *heads = PyBytes_FromStringAndSize(NULL, count * HEADER), *good = PyBytes_FromStringAndSize(NULL, count);
    PyObject *ids = PyList_New(count);
    if (heads && good && ids) {
        char *head = PyBytes_AsString(heads), *is_sound = PyBytes_AsString(good);
        Py_ssize_t i = 0;
        for (; i < count; i++) {
            PyObject *rows = NULL;
            int found = one(PyList_GetItem(values, i), first, last, head + i * HEADER, &rows);
            if (found < 0 || PyList_SetItem(ids, i, rows) < 0)
                break;
            is_sound[i] = (char)found;
        }
        if (i == count)
            answer = PyTuple_Pack(3, heads, good, ids);
    }
    Py_XDECREF(heads);
    Py_XDECREF(good);
    Py_XDECREF(ids);
    return answer;
}

static PyMethodDef methods[] = {
    {"take_apart", take_apart, METH_VARARGS, take_apart_doc},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    return offer_agreed(module, list_agreed);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_heads", "Headers of records in C; see acquisition.snapshot.reading.heads.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__heads(void)
{
    return PyModuleDef_Init(&definition);
}
