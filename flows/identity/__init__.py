"""What an input and a release are, whatever their place, their date and the version that reads.

`contents` names the content of files, `input_names` what a ledger records about an input, and
`release_id` the release of a job.
"""
