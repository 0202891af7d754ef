"""`python -m hushrank` is the command `hushrank`, where a script folder is not on the path."""

from hushrank.flows.cli.main import main

if __name__ == "__main__":  # a process that multiprocessing spawns imports this module too
    main()
