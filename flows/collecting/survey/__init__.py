"""Page of a survey: static files that ask people, and privatise answers on their device.

In: a checked configuration with a section `collect`, and texts. Out: a folder for any web host.
"""
