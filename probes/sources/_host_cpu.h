/* CPU time, interrupts and tasks of the host from /proc/stat, as in probes.figures.host_figures.CpuFigures. See
   _host_reading.h, which includes this. */

static int all_digits(const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (word[i] < '0' || word[i] > '9')
            return 0;
    return 1;
}

/* probes.figures.host_figures.ticks_of; returns whether they are valid. */
static int ticks_of(const char *at, const char *end, Number *ticks)
{
    const char *word;
    size_t length;
    Number field[CPU_FIELDS] = {0};
    int count = 0;
    while ((word = next_word(&at, end, &length))) {
        if (count < CPU_FIELDS ? !number_of(word, length, &field[count]) : !all_digits(word, length))
            return 0;
        count++;
    }
    Number guests = field[8] + field[9];
    ticks[CPU_USER] = field[0] + field[1] - guests;
    ticks[CPU_SYSTEM] = field[2] + field[5] + field[6];
    ticks[CPU_IDLE] = field[3];
    ticks[CPU_IOWAIT] = field[4];
    ticks[CPU_STEAL] = field[7];
    ticks[CPU_GUEST] = guests;
    return count >= 4;
}

static const char *end_of_line(const char *at, const Text *text)
{
    const char *end = memchr(at, '\n', (size_t)(text->end - at));
    return end ? end : text->end;
}

/* probes.figures.host_figures.cpu_ticks; returns whether they are valid. */
static int cpu_ticks(const Text *text, Number *ticks)
{
    const char *at = text->start, *end = end_of_line(at, text);
    size_t length;
    const char *word = next_word(&at, end, &length);
    return word && length == 3 && !memcmp(word, "cpu", 3) && ticks_of(at, end, ticks);
}

/* probes.figures.host_figures.core_ticks */
static void core_ticks(const Text *text, Core *cores)
{
    Number ticks[CPU_SHARES];
    uint64_t number;
    size_t length;
    for (const char *at = end_of_line(text->start, text), *end; text->end - at > 3 && !memcmp(at + 1, "cpu", 3); at = end) {
        end = end_of_line(++at, text);
        const char *word = next_word(&at, end, &length);
        if (!whole_of(word + 3, length - 3, &number) || number >= MOST_CORES || !ticks_of(at, end, ticks))
            continue;
        cores[number] = (Core){ticks[CPU_IDLE] + ticks[CPU_IOWAIT], 0};
        for (int i = 0; i < CPU_SHARES; i++)
            cores[number].all += ticks[i];
    }
}

/* probes.figures.host_figures.worst_core */
static void put_cores(Figures *out, HostRecord *record, const Text *text)
{
    Core new[MOST_CORES];
    double worst = -1.0, best = 2.0, most = ALL_TICKS * (out->hertz * out->longest);
    uint8_t code = MISSING;
    memset(new, 0, sizeof new);
    core_ticks(text, new);
    for (int i = 0; i < MOST_CORES; i++) {
        if (!new[i].all)
            continue;
        Number all = new[i].all - record->cores[i].all, idle = new[i].idle - record->cores[i].idle;
        if (code == MISSING)
            code = FIRST;
        if (!record->cores[i].all)
            continue;
        if (all < -CPU_JITTER)
            code = RESET;
        else if (as_double(all) > most && code != RESET)
            code = RATE;
        else if (all > 0) {
            double part = as_double(idle < 0 ? 0 : idle) / as_double(all), busy = part < 1.0 ? 1.0 - part : 0.0;
            worst = busy > worst ? busy : worst;
            best = busy < best ? busy : best;
        }
    }
    memcpy(record->cores, new, sizeof new);
    if (code == FIRST && worst >= 0.0) {
        put(out, WORST_CORE, worst);
        put(out, CORE_SPREAD, worst - best);
    } else {
        put_code(out, WORST_CORE, code);
        put_code(out, CORE_SPREAD, code);
    }
}

/* Sum and maximum of the VALID ones; those that fell a little have not grown. */
static double sum_valid(const Number *grown, const uint8_t *codes, double *largest)
{
    Number sum = 0, most = 0;
    for (int i = 0; i < CPU_SHARES; i++)
        if (codes[i] == VALID && grown[i] > 0) {
            sum += grown[i];
            most = grown[i] > most ? grown[i] : most;
        }
    *largest = as_double(most);
    return as_double(sum);
}

/* probes.figures.host_figures.shares */
static void put_shares_of(Figures *out, const Number *grown, double most, double expected)
{
    uint8_t codes[CPU_SHARES];
    double largest;
    int wrong = 0;
    for (int i = 0; i < CPU_SHARES; i++)
        codes[i] = grown[i] < -CPU_JITTER ? RESET : as_double(grown[i]) > most ? RATE : VALID;
    double excess = sum_valid(grown, codes, &largest) - ALL_TICKS * most;
    double least = excess <= largest ? excess : 1.0; /* more than one is wrong */
    for (int i = 0; excess > 0 && i < CPU_SHARES; i++)
        if (codes[i] == VALID && as_double(grown[i]) >= least)
            codes[i] = RATE;
    double total = sum_valid(grown, codes, &largest);
    for (int i = 0; i < CPU_SHARES; i++) {
        if (grown[i] < 0 && total < (1.0 - TOLERANCE) * expected)
            codes[i] = RESET;
        wrong |= codes[i] != VALID;
    }
    if (wrong && expected > total)
        total = expected;
    for (int i = 0; i < CPU_SHARES; i++) {
        if (codes[i] == RESET || total <= 0)
            put_code(out, i, codes[i] == VALID ? STUCK : codes[i]);
        else {
            put(out, i, as_double(grown[i] < 0 ? 0 : grown[i]) / total);
            out->codes[i] = codes[i];
        }
    }
}

static void put_shares(Figures *out, HostRecord *record, const Text *text, uint64_t cpus)
{
    Number new[CPU_SHARES], grown[CPU_SHARES];
    uint64_t had = record->has_ticks, most_cpus = cpus > record->cpus ? cpus : record->cpus;
    double most = (double)(most_cpus ? most_cpus : MOST_CPUS) * (out->hertz * out->longest);
    record->cpus = cpus;
    record->has_ticks = (uint64_t)cpu_ticks(text, new);
    if (!record->has_ticks)
        return;
    for (int i = 0; i < CPU_SHARES; i++) {
        grown[i] = new[i] - record->ticks[i];
        record->ticks[i] = new[i];
        if (!had)
            put_code(out, i, FIRST);
    }
    if (had)
        put_shares_of(out, grown, most, (double)cpus * (out->hertz * out->seconds));
}

static void read_cpu(Figures *out, HostRecord *record, const Text *text)
{
    uint64_t number;
    const char *start = text->start, *end = text->end;
    unsigned cpus = 0;
    for (const char *at = start; (at = memmem(at, (size_t)(end - at), "\ncpu", 4)); at += 4)
        cpus++;
    put_shares(out, record, text, cpus);
    put_cores(out, record, text);
    put_rate(out, INTERRUPTS, &record->counters[INTERRUPTS], number_after(start, end, "\nintr ", &number), 1.0);
    put_rate(out, SWITCHES, &record->counters[SWITCHES], number_after(start, end, "\nctxt ", &number), 1.0);
    if (number_after(start, end, "\nprocs_running ", &number))
        put(out, RUNNABLE, (double)number);
    if (number_after(start, end, "\nprocs_blocked ", &number))
        put(out, BLOCKED, (double)number);
    if (cpus)
        put(out, CPUS, cpus);
}
