"""``shardpulse top``: live terminal view of hosts by heat, entities and shards.

One way through the files: ``reading`` reads (I/O), ``listings`` makes rows from a snapshot and keeps their history for
sparklines, ``columns`` is the table of columns, ``view`` holds the user's choices and selects the rows to show,
``key_actions`` maps keys to changes of it, ``screen`` renders the visible part, ``terminal`` is the screen and the
keyboard (I/O). ``plain`` is for pipes. Nothing between the two edges reads a clock, a shard or a file.
"""
