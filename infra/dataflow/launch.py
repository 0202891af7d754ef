"""What the launcher of the flex template starts: a file, where our module is in a package."""

from hushrank.flows.nights.dataflow_template import main

main()
