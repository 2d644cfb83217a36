"""Benefit of smoothing: load of known truth, detection and control.

==============  ==================================================================================
``load``        what a run is fed with: demand and sustained level of every VM at 1 Hz
``noise``       AR(1), spikes, events: the pieces of synthetic load
``synthetic``   the scenarios: noise, steps, ramps, bursts, faults, mixed
``traces``      the same over five-minute traces of real VMs (PlanetLab)
``recording``   the same over what our own probe recorded at 1 Hz (``recorder``, ``programs``)
``truth``       when a host is overloaded, and what the alarms of a run are worth
``watch``       ways of watching: five minutes, ten seconds, raw 1 Hz, EMA
``monitor``     what a way of watching knows at a tick: windows, averages, CUSUM of all hosts
``rules``       the rules of ``filters.decisions`` over all hosts at once, tested equal to them
``detection``   a run in which nobody acts: delays and false alarms
``control``     a run in which hot hosts lose VMs: migrations, flaps, overload time
``training``    the sweep over training seeds that ``parameters`` are frozen from
``campaign``    all runs of a report; ``report`` and ``plot`` write it
==============  ==================================================================================
"""
