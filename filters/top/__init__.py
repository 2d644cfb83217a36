"""``shardpulse top``: live terminal view of hosts by heat, entities and shards.

One way through the files: ``reading`` reads (I/O), ``listings`` makes rows from a snapshot and remembers them for
sparklines, ``columns`` is the table of columns, ``view`` is what the person has chosen and which rows that shows,
``key_actions`` how a key changes it, ``screen`` renders what is visible, ``terminal`` is the screen and the keyboard
(I/O). ``plain`` is for pipes. Nothing between the two edges reads a clock, a shard or a file.
"""
