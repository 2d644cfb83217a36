/* Parsing of texts of /proc: words and whole numbers, as by Python's bytes.split and probes.sampling.procfs.whole. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __int128 Number; /* a counter of 64 bits, or a difference of such */

/* The same as a cast; nearly all numbers fit 64 bits, and the compiler's own cast from 128 takes longer. */
static double as_double(Number number)
{
    return number == (int64_t)number ? (double)(int64_t)number : (double)number;
}

static int is_space(char c)
{
    return c <= ' ' && (c == ' ' || (c >= '\t' && c <= '\r'));
}

/* The next word of ``*at``, which is moved past it; NULL if there is none. */
static const char *next_word(const char **at, const char *end, size_t *length)
{
    const char *start = *at;
    while (start < end && is_space(*start))
        start++;
    const char *stop = start;
    while (stop < end && !is_space(*stop))
        stop++;
    *at = stop;
    *length = (size_t)(stop - start);
    return stop > start ? start : NULL;
}

/* The whole number in a word; 0 if it is not one of 64 bits. */
static int whole_of(const char *word, size_t length, uint64_t *found)
{
    enum { SAFE = 19 }; /* this number of digits always fits 64 bits */
    uint64_t number = 0;
    if (!word || !length)
        return 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(unsigned char)word[i] - '0';
        if (digit > 9)
            return 0;
        if (i < SAFE)
            number = number * 10 + digit;
        else if (__builtin_mul_overflow(number, 10u, &number) || __builtin_add_overflow(number, digit, &number))
            return 0;
    }
    *found = number;
    return 1;
}

static int number_of(const char *word, size_t length, Number *found)
{
    uint64_t number;
    if (!whole_of(word, length, &number))
        return 0;
    *found = number;
    return 1;
}

/* Last occurrence of ``label`` in the text, NULL if there is none. */
static const char *find_last(const char *text, size_t length, const char *label)
{
    size_t size = strlen(label);
    for (size_t at = length >= size ? length - size + 1 : 0; at-- > 0;)
        if (text[at] == label[0] && !memcmp(text + at, label, size))
            return text + at;
    return NULL;
}

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}
