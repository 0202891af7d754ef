"""The local page that leads from a file to a report: `hushrank app`.

In: a folder of this machine, and what one person chooses in a browser. Out: the YAML file of a job
in that folder, and a run of it in a process of its own, by the same functions as the command line.
Nothing is loaded from another machine, and nobody without the page's secret address is answered.
"""
