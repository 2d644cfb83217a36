"""Evaluation of decisions on contention: real filter step, rules and planner in simulated time.

==============  ==================================================================================
``scenarios``   generators of work, split into training and test; a row of another package is one file
``contention``  guests that wait for cores: busy and waiting differ
``hosts``       guests on hosts, and the metrics that the product would see
``filtering``   the filter step of the product over all hosts
``judges``      rules of the registry, and detectors in use elsewhere
``truth``       overload by level and by harm
``watching``    nobody acts: delays and false alarms
``closed``      the planner acts: moves, needless moves, waiting seconds of guests
``scores``      figures with confidence intervals
==============  ==================================================================================
"""
