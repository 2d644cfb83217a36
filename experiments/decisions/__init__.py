"""Evaluation of decisions: the product's filter, rules and planner in a model.

==============  ==================================================================================
``scenarios``   generators of work, split into training and test; other packages add one as a file
``contention``  guests waiting for cores: busy and waiting differ
``hosts``       guests on hosts, and the metrics a probe would send
``filtering``   the filter step and the readings of the product over all hosts
``sight``       view of a run for each judge, at its interval
``judges``      rules of the registry, and detectors in use elsewhere
``truth``       overload by level and by harm
``watching``    without moves: delays and false alarms
``closed``      with moves by the planner: moves, needless moves, waiting seconds of guests
``scores``      figures with confidence intervals
``report``      tables; ``plot`` draws, ``together`` runs on all cores
==============  ==================================================================================
"""
