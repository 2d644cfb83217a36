"""Paper experiments repeated: its prototype and shardpulse in one run.

The paper: Andreolini, Colajanni, Lancellotti, "Assessing the overhead and scalability of system monitors for large data
centers", CloudCP 2011. A new figure is one ``figure.Figure`` in ``figures.FIGURES``.
"""
