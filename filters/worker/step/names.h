/* Attributes read from Python objects, as interned names. */

#define DECLARE(name, text) static PyObject *name;
#define MAKE(name, text) && (name = PyUnicode_InternFromString(text))

ATTRIBUTES_OF_STATE(DECLARE)
ATTRIBUTES_OF_BATCH(DECLARE)
static PyObject *stepper_type;

/* Returns 0 with an error set if memory is exhausted. */
static int make_names(void)
{
    return 1 ATTRIBUTES_OF_STATE(MAKE) ATTRIBUTES_OF_BATCH(MAKE);
}
