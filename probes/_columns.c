/* Questions of the checks about a whole reading, in one pass over its values: see probes.sampling.columns, which stays
   the definition. A reading of a hundred processes has 1,600 values, and nearly always none is out of order. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>

#include "../acquisition/wire/agreed.h"

enum { VALID = 0 }; /* acquisition.model.codes */
enum { MOST_COLUMNS = 256 };

static int list_agreed(PyObject *table)
{
    return 1 AGREE_NUMBER(VALID);
}

static PyObject *misfit(void)
{
    PyErr_SetString(PyExc_ValueError, "the parts do not fit together");
    return NULL;
}

/* The columns that are set, as a list. */
static PyObject *listed(const uint8_t *set, Py_ssize_t width)
{
    PyObject *answer = PyList_New(0);
    for (Py_ssize_t i = 0; answer && i < width; i++) {
        PyObject *column = set[i] ? PyLong_FromSsize_t(i) : NULL;
        if (set[i] && (!column || PyList_Append(answer, column) < 0))
            Py_CLEAR(answer);
        Py_XDECREF(column);
    }
    return answer;
}

PyDoc_STRVAR(outside_doc, "outside(values, lows, highs) -> columns\n\nSee probes.sampling.columns.");

static PyObject *outside(PyObject *module, PyObject *arguments)
{
    Py_buffer values, lows, highs;
    uint8_t beyond[MOST_COLUMNS] = {0};
    PyObject *answer;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*y*", &values, &lows, &highs))
        return NULL;
    const double *value = values.buf, *low = lows.buf, *high = highs.buf;
    Py_ssize_t width = lows.len / 8, count = values.len / 8;
    if (!width || width > MOST_COLUMNS || highs.len != lows.len || lows.len % 8 || values.len % 8 || count % width) {
        answer = misfit();
    } else {
        for (Py_ssize_t row = 0; row < count; row += width)
            for (Py_ssize_t i = 0; i < width; i++)
                beyond[i] |= (value[row + i] < low[i]) | (value[row + i] > high[i]);
        answer = listed(beyond, width);
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&lows);
    PyBuffer_Release(&highs);
    return answer;
}

PyDoc_STRVAR(unmarked_doc, "unmarked(values, codes) -> bool\n\nSee probes.sampling.columns.");

static PyObject *unmarked(PyObject *module, PyObject *arguments)
{
    Py_buffer values, codes;
    int found = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*", &values, &codes))
        return NULL;
    const double *value = values.buf;
    const uint8_t *code = codes.buf;
    int fits = values.len == codes.len * 8;
    for (Py_ssize_t i = 0; fits && i < codes.len; i++)
        found |= (value[i] != value[i]) & (code[i] == VALID);
    PyBuffer_Release(&values);
    PyBuffer_Release(&codes);
    return fits ? PyBool_FromLong(found) : misfit();
}

PyDoc_STRVAR(unbalanced_doc, "unbalanced(values, width, one, two, three, whole, tolerance) -> bool\n\nSee probes.sampling.columns.");

static PyObject *unbalanced(PyObject *module, PyObject *arguments)
{
    Py_buffer values;
    Py_ssize_t width, one, two, three, whole;
    double tolerance;
    int found = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*nnnnnd", &values, &width, &one, &two, &three, &whole, &tolerance))
        return NULL;
    const double *row = values.buf;
    Py_ssize_t count = values.len / 8;
    int fits = width > 0 && values.len % 8 == 0 && count % width == 0 && one >= 0 && one < width && two >= 0 &&
               two < width && three >= 0 && three < width && whole >= 0 && whole < width;
    for (Py_ssize_t at = 0; fits && at < count; at += width, row += width)
        found |= !(fabs(row[one] + row[two] + row[three] - row[whole]) <= tolerance);
    PyBuffer_Release(&values);
    return fits ? PyBool_FromLong(found) : misfit();
}

PyDoc_STRVAR(pack_doc, "pack(values) -> bytes\n\nSee probes.sampling.columns.");

static PyObject *pack(PyObject *module, PyObject *argument)
{
    Py_buffer values;
    (void)module;
    if (PyObject_GetBuffer(argument, &values, PyBUF_SIMPLE) < 0)
        return NULL;
    const double *value = values.buf;
    Py_ssize_t count = values.len / 8;
    PyObject *answer = values.len % 8 ? misfit() : PyBytes_FromStringAndSize(NULL, count * 4);
    if (answer) {
        float *packed = (float *)(void *)PyBytes_AsString(answer);
        for (Py_ssize_t i = 0; i < count; i++)
            packed[i] = (float)value[i];
    }
    PyBuffer_Release(&values);
    return answer;
}

static PyMethodDef methods[] = {
    {"outside", outside, METH_VARARGS, outside_doc},
    {"unmarked", unmarked, METH_VARARGS, unmarked_doc},
    {"unbalanced", unbalanced, METH_VARARGS, unbalanced_doc},
    {"pack", pack, METH_O, pack_doc},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    return offer_agreed(module, list_agreed);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_columns", "Columns of a reading in C; see probes.sampling.columns.", 0, methods, slots, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
