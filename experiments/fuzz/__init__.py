"""Parts of ``experiments.fuzz``: hostile input, the oracles that judge what comes out, the guards around it.

Every case is a function of (seed, kind, number): any one can be repeated alone.
"""
