"""Records in, plain dicts and strings out, which text, HTML, reports and panels share. No torch, no Jupyter.

- ``words``: wording of numbers, sizes and names. ``places``: source lines, and which findings are on a node or line.
- ``text``: a session as text. ``snapshot``: the HTML that stays in a notebook without a kernel.
- One module a tab, with the tab's dicts and its text: ``panel`` (header, findings, sources), ``overview``, ``guards``
  with ``recompiles`` and ``advice``, ``code``, ``memory``, ``placement``, ``transfers``, ``diff`` with
  ``localization`` and ``crash``. ``shapes`` has the types that several of them share.
- ``bisect``, ``conformance``, ``provenance``: the text of these three reports.
- A graph's picture: ``declutter`` (nodes → ops), ``collapse`` (ops → boxes), ``graph`` (boxes → drawing), ``layout``
  (graphviz) or ``layered`` (our own) → ``geometry``, ``svg``, ``colours``. ``graph_view`` is a graph with some boxes
  open, ``picture`` a static one.
"""
