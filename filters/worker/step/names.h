/* The attributes that are read of Python's objects: of filters.worker.state.State and filters.worker.partition.Partition. */

#define NAMES(DO) DO(member) DO(stepper) DO(track) DO(_extra) DO(_records)
#define DECLARE(name) static PyObject *s_##name;
#define MAKE(name) && (s_##name = PyUnicode_InternFromString(#name))

NAMES(DECLARE)
static PyObject *stepper_type;

/* 0 with an error set when there is no memory. */
static int make_names(void)
{
    return 1 NAMES(MAKE);
}
