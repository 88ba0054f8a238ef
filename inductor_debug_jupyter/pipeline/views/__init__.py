"""Records → plain dicts and strings that text, HTML, reports and panels share.

Nothing here knows torch or Jupyter. ``text`` prints, ``panel`` makes the dicts that the widgets are given (their
types are in ``shapes``), ``graph`` turns a graph into a drawing and DOT, ``layout`` turns DOT into SVG, ``snapshot``
makes the HTML that stays behind when there is no kernel. ``words`` and ``places`` hold what all of them need:
wording, and which finding stands on which node and line.
"""
