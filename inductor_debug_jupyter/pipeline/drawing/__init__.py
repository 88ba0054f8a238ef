"""Graphs as pictures: a graph's record in, SVG out. No torch, no Jupyter.

``declutter`` (nodes → ops), ``folding`` (ops → boxes), ``painter`` (boxes → shapes and arrows), ``graphviz_layout`` or,
without graphviz and for large graphs, ``own_layout`` (shapes → ``geometry``), ``colours``, ``svg``. ``graph_view`` is a
graph with some boxes open, as panels, snapshots and reports show it; ``saved_graph`` is that graph with all pictures
made beforehand; ``side_by_side`` is two graphs of a comparison that open and choose together.
"""
