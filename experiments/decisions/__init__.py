"""Evaluation of decisions: the product's filter, rules and planner in a model.

==============  ==================================================================================
``scenarios``   generators of work, split into training and test; one of another package is one file
``contention``  guests that wait for cores: busy and waiting differ
``hosts``       guests on hosts, and the metrics that the probe would send
``filtering``   the filter step and the readings of the product over all hosts
``sight``       what judges see of a run, each at its interval
``judges``      rules of the registry, and detectors in use elsewhere
``truth``       overload by level and by harm
``watching``    nobody acts: delays and false alarms
``closed``      the planner acts: moves, needless moves, waiting seconds of guests
``scores``      figures with confidence intervals
``report``      tables; ``plot`` draws, ``together`` runs on all cores
==============  ==================================================================================
"""
