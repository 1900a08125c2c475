# SPDX-License-Identifier: BSD-3-Clause
# Text for troff, for header_to_man.awk and help_to_man.awk: named with -f before them (any POSIX awk).

# Text that troff prints as it stands.
function quote(text)
{
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

# The argument of a macro: double quotes would end it.
function quote_item(text)
{
  text = quote(text)
  gsub(/"/, "\\(dq", text)
  return text
}

# Text in backquotes is bold.
function mark(text)
{
  text = quote(text)
  while (match(text, /`[^`]+`/))
    text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fR" substr(text, RSTART + RLENGTH)
  return text
}
