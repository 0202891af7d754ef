"""What Linux, macOS and Windows do differently, behind one set of names.

In: paths, open files, processes. Out: what the system did with them, or what it says of them.

The rest of the code asks no platform: it calls what stands here. `posix` serves Linux and macOS,
`windows` serves Windows, and both define the same names with the same promises. Where a system
cannot keep a promise, the function's docstring there says so, and docs/installing.md says it to
users.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from hushrank.transforms.system import windows as _system
    from hushrank.transforms.system.windows import Access as Access
    from hushrank.transforms.system.windows import MemoryBound as MemoryBound
else:
    from hushrank.transforms.system import posix as _system
    from hushrank.transforms.system.posix import Access as Access
    from hushrank.transforms.system.posix import MemoryBound as MemoryBound

from hushrank.transforms.system.quotas import processors as processors

# Files.
open_descriptor = _system.open_descriptor
read_at = _system.read_at
read_into = _system.read_into
write_at = _system.write_at
flush_data = _system.flush_data
flush_folder = _system.flush_folder
replace = _system.replace
memory_file = _system.memory_file
longest_name = _system.longest_name
length_of_path = _system.length_of_path
longest_path = _system.longest_path
UNIT_OF_PATHS = _system.UNIT_OF_PATHS
TO_OPEN_LONGER = _system.TO_OPEN_LONGER
NOT_KEPT = _system.NOT_KEPT
unfit_name = _system.unfit_name
lock_at_once = _system.lock_at_once
mark_read_only = _system.mark_read_only
is_in_memory = _system.is_in_memory
# Who may open them.
access_of = _system.access_of
make_private_folder = _system.make_private_folder
private_files = _system.private_files
account_name = _system.account_name
# Processes and signals.
STOPPING = _system.STOPPING
OWN_GROUP = _system.OWN_GROUP
deaf_to_interrupts = _system.deaf_to_interrupts
end_group = _system.end_group
ends_with_parent = _system.ends_with_parent
crash_of = _system.crash_of
leave_no_core_file = _system.leave_no_core_file
# Limits.
address_space = _system.address_space
allow_open_files = _system.allow_open_files
