"""The fault zoo: drawn faults that the tool must be right about, and the same models without any.

In: a seed. Out: marks for each case. Read it in this order:

- :mod:`values`, :mod:`models`, :mod:`subjects`: what runs, built from a seed, and on which lines its ops are written;
- :mod:`faults`, :mod:`backends`, :mod:`planted`: what is wrong, and how it gets into a backend;
- :mod:`cases`: which faults go with which models, values and backends, and the draw;
- :mod:`showing`: whether a fault shows at all, measured without the tool;
- :mod:`trial`, :mod:`pool`: a case tried, in a child process, many side by side;
- :mod:`scoring`: was the tool right, and the tables.
"""
