"""``shardpulse top``: hosts by heat, what runs on them, shards, live in a terminal.

One way through the files: ``reading`` reads (I/O), ``listing`` says what rows are (``hosts`` and ``entities`` make
them from a snapshot), ``history`` remembers for sparklines, ``view`` is what the person has chosen and
``key_actions`` how a key changes it, ``columns`` is the table of columns and orders rows, ``screen`` renders what is
visible, ``terminal`` is the screen and the keyboard (I/O). ``plain`` is for pipes. Nothing between the two edges reads
a clock, a shard or a file.
"""
