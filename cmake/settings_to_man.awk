# SPDX-License-Identifier: BSD-3-Clause
# Makes tutti-settings(7) from src/base/settings.def and the section on topology files of src/topo/README.md (any POSIX
# awk).
#
#   awk -v out=FILE -v version="Tutti 0.1.0" -f settings_to_man.awk settings.def README.md
function quote(text)
{
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  gsub(/1 ?<< ?30/, "1073741824", text)
  return text
}

# Cuts TT_X(a, "b", c, "d, e") into part[1 ..]; a comma inside quotes does not cut.
function cut_row(row,   i, c, quoted)
{
  parts = 1
  part[1] = ""
  for (i = index(row, "(") + 1; i < length(row); i++) {
    c = substr(row, i, 1)
    if (c == "\"") quoted = !quoted
    else if (c == "," && !quoted) part[++parts] = ""
    else if (c != " " || quoted) part[parts] = part[parts] c
  }
}

BEGIN {
  print ".TH tutti-settings 7 \"\" \"" version "\" \"Tutti manual\"\n.nh" > out
  print ".SH NAME\ntutti\\-settings \\- environment variables that Tutti reads" > out
  print ".SH DESCRIPTION" > out
  print "The environment overrides the program. A value out of range is an error, an unknown" > out
  print "TUTTI_ name is warned about. Values and where they come from are printed by\n.BR \"tutti info\" ." > out
  print "Settings marked \"on all ranks\" decide what goes on the wire and must be equal on all ranks." > out
}

/^TT_(INT|CHOICE|TEXT)\(/ {
  sub(/[ \t]*$/, "")
  cut_row($0)
  help = part[parts]
  same = sub(/^=/, "", help)
  if ($0 ~ /^TT_INT/) {
    range = part[6] ", " part[4] " to " part[5] "; default " part[3]
  } else if ($0 ~ /^TT_CHOICE/) {
    split(part[4], choice, "|")
    range = part[4] "; default " choice[part[3] + 1]
  } else {
    range = part[3] == "" ? "text; default empty" : "text; default " part[3]
  }
  print ".TP\n.B " part[2] "\n" quote(help) "." > out
  print quote("(" range (same ? "; on all ranks" : "") ")") > out
}

/^## / {
  is_topology = /topology file/
  if (is_topology) print ".SH TOPOLOGY FILE" > out
}

is_topology && !/^## / {
  is_example = sub(/^    /, "")
  if (is_example != was_example) print (is_example ? ".EX" : ".EE") > out
  was_example = is_example
  gsub(/`/, "")
  print quote($0) > out
}

END { print ".SH SEE ALSO\n.BR tutti (1),\n.BR tutti (3)" > out }
