/* What C shares with Python: numbers, offsets and names that are defined in both. Each module lists its own in one
   function and offers the list as AGREED, a dict of values by name; acquisition.compiled.agree compares it with the
   definitions when the module is loaded. Needs Python.h. */

#include <stddef.h>

#include "little_endian.h"

/* Steals the reference to ``value``; 0 with an error set. */
static int agree(PyObject *table, const char *name, PyObject *value)
{
    int done = value && !PyDict_SetItemString(table, name, value);
    Py_XDECREF(value);
    return done;
}

/* Terms of a condition that holds if all are added to ``table``. */
#define AGREE_NUMBER(name) && agree(table, #name, PyLong_FromLongLong((long long)(name)))
#define AGREE_DOUBLE(name) && agree(table, #name, PyFloat_FromDouble((double)(name)))
#define AGREE_BYTES(name) && agree(table, #name, PyBytes_FromString(name))
#define AGREE_SIZE(type) && agree(table, "sizeof " #type, PyLong_FromSize_t(sizeof(type)))
#define AGREE_OFFSET(type, field) && agree(table, #type "." #field, PyLong_FromSize_t(offsetof(type, field)))

/* A list LIST(DO) of DO(NAME, "text"): the places of an enum, and their names in Python. */
#define AS_PLACE(name, text) name,
#define AS_TEXT(name, text) text,
#define AGREE_NAMES(name, LIST) \
    && agree(table, name, names_of((const char *const[]){LIST(AS_TEXT)}, sizeof((const char *const[]){LIST(AS_TEXT)}) / sizeof(char *)))

__attribute__((unused)) static PyObject *names_of(const char *const *names, size_t count)
{
    PyObject *found = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; found && i < count; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (!name || PyTuple_SetItem(found, (Py_ssize_t)i, name))
            Py_CLEAR(found);
    }
    return found;
}

/* Make a module offer the entries added by ``list``; -1 with an error set. */
static int offer_agreed(PyObject *module, int (*list)(PyObject *table))
{
    PyObject *table = PyDict_New();
    int failed = !table || !list(table) || PyModule_AddObjectRef(module, "AGREED", table);
    Py_XDECREF(table);
    return failed ? -1 : 0;
}
