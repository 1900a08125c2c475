# SPDX-License-Identifier: BSD-3-Clause
# Makes tutti-settings(7) from src/base/settings.def, the section on topology files of src/topo/README.md, and the heads
# of src/tuner/algo_filter.h and rules.h, which have the grammars of TUTTI_ALGO and of table files (any POSIX awk).
#
#   awk -v out=FILE -v version="Tutti 0.1.0" -f settings_to_man.awk settings.def README.md algo_filter.h rules.h
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
  print "The environment overrides the program. A value out of range is an error; an unknown" > out
  print "TUTTI_ name gives a warning.\n.B tutti info\nprints the values, and where they come from." > out
  print "Numbers of bytes may be written as 64K, 1.5M, 2GiB or 1e6; K, M and G are powers of 1,024." > out
  print "Settings that are marked \"on all ranks\" must have the same value on all ranks." > out
}

# The subject of the rows below.
/^#define TT_SUBJECT / {
  gsub(/^#define TT_SUBJECT "|"$/, "")
  print ".SS " toupper(substr($0, 1, 1)) substr($0, 2) > out
}

# A row may go on in the next line.
/^TT_(INT|CHOICE|TEXT)\(/ || begun {
  sub(/^ +/, "")
  sub(/[ \t]*$/, "")
  row = begun ? row " " $0 : $0
  begun = row !~ /\)$/
  if (begun) next
  cut_row(row)
  help = part[parts]
  same = sub(/^=/, "", help)
  gsub(/ in man tutti-settings/, " below", help)
  gsub(/\(int64_t\)1<<40/, "1099511627776", part[5])
  if (row ~ /^TT_INT/) {
    range = (part[6] == "" ? "" : part[6] ", ") part[4] " to " part[5] "; default " part[3]
  } else if (row ~ /^TT_CHOICE/) {
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

# A line of text; behind blanks one of an example.
function print_text(text,   is_example)
{
  is_example = sub(/^    /, "", text)
  if (is_example != was_example) print (is_example ? ".EX" : ".EE") > out
  was_example = is_example
  gsub(/`/, "", text)
  if (is_example && length(text) > 72) gsub(/   +/, "  ", text)
  while (is_example && length(text) > 72) { # a terminal has 80 columns
    for (cut = 72; cut > 1 && substr(text, cut + 1, 1) != " "; cut--) {}
    print quote(substr(text, 1, cut)) > out
    text = "    " substr(text, cut + 2)
  }
  print quote(text) > out
}

is_topology && !/^## / { print_text($0) }

# The first comment of a header but for its licence: a section of its own.
FILENAME ~ /\.h$/ && /^\/\* SPDX/ {
  is_topology = is_told = 0
  next
}

FILENAME ~ /\.h$/ && /^\/\*/ && !is_told {
  is_told = 1
  print ".SH " (FILENAME ~ /rules\.h$/ ? "TABLE FILE" : "ALGORITHMS") > out
  sub(/^\/\*/, " *")
}

FILENAME ~ /\.h$/ && is_told == 1 {
  if (sub(/ *\*\/ *$/, "")) is_told = 2
  sub(/ Pure\.$/, "")
  sub(/ \(tuner\/algo_filter\.h\)/, "")
  sub(/^ \* ?/, "")
  sub(/^  /, "    ")
  print_text($0)
}

END {
  if (was_example) print ".EE" > out
  print ".SH EXAMPLES\n.nf" > out
  print "TUTTI_DEBUG=INFO TUTTI_TRANSPORTS=tcp tutti run \\-n 4 \\-\\- ./program" > out
  print "TUTTI_COMM_ID=node1:29500 RANK=0 WORLD_SIZE=2 ./program" > out
  print "TUTTI_ALGO=all_reduce:ring,circulant mpirun \\-n 8 ./program\n.fi" > out
  print ".SH SEE ALSO\n.BR tutti (1),\n.BR tutti (3)" > out
}
