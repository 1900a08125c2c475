# SPDX-License-Identifier: BSD-3-Clause
# Makes troff of what a program prints under --help. Its "usage:" is the synopsis; a line with a gap of two blanks, or one
# under a line that ends with a colon, is an item; one that stands
# further in goes on with the item, or is a listing; the rest is text. Paragraphs that begin with "The exit status" or
# "Exit status" are the third part (any POSIX awk).
#
#   awk -v part=synopsis|text|status -f troff.awk -f help_to_man.awk FILE

# A paragraph, item or listing begins, and what was open ends.
function begin(what)
{
  if (open == "listing" && what != "listing") print ".fi\n.RE"
  if (what == "listing" && open != "listing") print ".PP\n.RS 4\n.nf"
  if (what == "text") print ".PP"
  if (what == "item") print ".TP"
  open = what
}

/^usage: / || (in_usage && /^       [^ ]/) {
  in_usage = 1
  line = substr($0, 8)
  command = match(line, / [^a-z]/) ? substr(line, 1, RSTART - 1) : line
  if (part == "synopsis") print ".HP 4\n.B " quote(command) "\n" quote(substr(line, length(command) + 2))
  next
}
{ in_usage = 0 }
part == "synopsis" { next }

/^$/ { begin(""); is_list = 0; in_status = 0; next }
/^(The exit|Exit) status/ { in_status = 1 }
(part == "status") != in_status { next }
/^Exit status: / { $0 = toupper(substr($0, 14, 1)) substr($0, 15) } # the heading says so

/^  (    )?-/ || /^  [^ ].*[^ ]  / || (is_list && /^  [^ ]/) {
  text = $0
  sub(/^ +/, "", text)
  # The name ends at a gap; if the column is too narrow for one, behind the option's argument.
  if (match(text, /  +/)) name = substr(text, 1, RSTART - 1)
  else name = match(text, /^(-[A-Za-z], )?--?[a-z-]+( [A-Z][^ ]*)? /) ? substr(text, 1, RLENGTH - 1) : text
  text = substr(text, length(name) + 1)
  sub(/^ +/, "", text)
  if (text == "" && is_list) { # a gap of one blank
    text = name
    sub(/ .*/, "", name)
    sub(/^[^ ]+ */, "", text)
  }
  begin("item")
  print ".B " quote_item(name)
  if (text != "") print mark(text)
  next
}

/^ / {
  if (open != "item" || /^    ?[^ ]/) {
    begin("listing")
    print quote($0)
  } else {
    sub(/^ +/, "")
    print mark($0)
  }
  next
}

{
  if (open != "text") begin("text")
  print mark($0)
  is_list = /(:|, and)$/
}

END { begin("") }
