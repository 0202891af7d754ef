"""The YAML file of a job: what a person may write, and what each key means.

In: the text of the file. Out: a checked, frozen `SurveyConfig`, or every broken rule by file,
line and key.
"""
