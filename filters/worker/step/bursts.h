/* Bursts of a host's CPU, as defined by filters.worker.inputs.bursts with numpy. */

/* Learn an excursion that has ended; the planes of ``kept`` are n apart. */
static void learn_burst(float *kept, size_t n, size_t place, float dt)
{
    float length = kept[BURST_OPEN * n], peak = kept[BURST_PEAK * n];
    float *longest = kept + (BURST_LONGEST_0 + place) * n, *height = kept + (BURST_HEIGHT_0 + place) * n;
    *longest = length > *longest ? length : *longest;
    *height = peak > *height ? peak : *height;
    kept[(BURST_COUNT_0 + place) * n] += 1.0f;
    float begun = length + dt, period = kept[BURST_SINCE * n] - begun, known = kept[BURST_PERIOD * n];
    float near = BURST_SAME_SHARE * known > BURST_SAME_SECONDS ? BURST_SAME_SHARE * known : BURST_SAME_SECONDS;
    float *regular = kept + BURST_REGULAR * n;
    *regular = fabsf(period - known) <= near ? *regular + 1.0f : 0.0f;
    kept[BURST_PERIOD * n] = period;
    kept[BURST_SINCE * n] = begun;
    kept[BURST_LENGTH * n] = length;
}

static void turn_burst_slots(float *kept, size_t n, float slot)
{
    float before = kept[BURST_SLOT * n], turned = slot - before;
    if (!(turned >= 0.0f && turned <= (float)BURST_SLOTS))
        turned = (float)BURST_SLOTS;
    for (size_t i = 0; i < (size_t)turned; i++) {
        size_t place = (size_t)fmodf(slot - (float)i + 4.0f * BURST_SLOTS, (float)BURST_SLOTS);
        kept[(BURST_LONGEST_0 + place) * n] = 0.0f;
        kept[(BURST_COUNT_0 + place) * n] = 0.0f;
        kept[(BURST_HEIGHT_0 + place) * n] = 0.0f;
    }
    kept[BURST_SLOT * n] = slot;
}

/* One tick of the bursts of n entities: ``bursts`` (B, n); ``newest`` (n,): samples, ABSENT if not valid; ``above``
   (n,): number of the last ``counted`` values above the threshold. */
static void advance_bursts(float *bursts, size_t n, const float *newest, const uint8_t *above, int counted,
                           float threshold, float seconds, double dt, double monotonic)
{
    double number = fmod(floor(monotonic / BURST_SLOT_SECONDS), BURST_SLOT_NUMBERS);
    float slot = number >= 0.0 ? (float)number : 0.0f; /* never negative, infinite or NaN: it is used as an index */
    for (size_t e = 0; e < n; e++) {
        float *kept = bursts + e, x = newest[e];
        float *opened = kept + BURST_OPEN * n, *peak = kept + BURST_PEAK * n, *held = kept + BURST_HELD * n;
        turn_burst_slots(kept, n, slot);
        kept[BURST_SINCE * n] += (float)dt;
        if (x < ABSENT && *opened > 0.0f && !(x >= threshold - BURST_FALL)) {
            if (*opened >= BURST_LEAST && *opened <= BURST_MOST)
                learn_burst(kept, n, (size_t)fmodf(slot, (float)BURST_SLOTS), (float)dt);
            *opened = 0.0f;
        } else if (x < ABSENT && *opened > 0.0f) {
            *opened += seconds;
            *peak = x > *peak ? x : *peak;
        } else if (x < ABSENT && x > threshold) {
            *opened = seconds;
            *peak = x;
        }
        int begun = *held > 0.0f || 4 * above[e] >= 3 * counted;
        *held = begun && above[e] ? *held + seconds : 0.0f;
    }
}
