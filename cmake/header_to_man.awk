# SPDX-License-Identifier: BSD-3-Clause
# Makes manual pages of section 3 from a public header (any POSIX awk).
#
#   awk -v out=DIR -v header=tutti.h -v version="Tutti 0.1.0" -v arguments=FILE -v examples=DIR \
#     -f troff.awk -f header_to_man.awk HEADER
#
# `arguments` tells what arguments are; `examples` has programs in C, from which pages show calls.
# No line that is shown as it stands is longer than a terminal.
#
# A comment that ends on the line before a TUTTI_API declaration becomes one page,
# named after the first function that follows; the others link to it. Its first
# sentence is the NAME line, and so must be short; its "Errors" paragraph is the ERRORS section; a paragraph that is
# indented by four is a listing, and one by two a table: each line that is indented no further begins a row, with a term
# (what is in double quotes, or stands before a gap) and what is said of it. What a comment that begins with "---- TITLE ----" says stands on all pages after it;
# one that is only that begins a group: SEE ALSO names the pages of the group, and functions that the page speaks of.
# The first comment of the header after the licence becomes the page of the header itself, which shows all types; a
# struct stands on the pages of the functions that take it, too.

# Prints a line of C, in several if it is long; a comment is one line first, however many it has in the header. Calls are
# cut behind the last comma that fits, others at a blank.
function print_code(file, text,   lead, cut, continued)
{
  if (pending != "") {
    sub(/^ +/, "", text)
    text = pending " " text
  }
  pending = text ~ /\/\*/ && text !~ /\*\// ? text : ""
  if (pending != "") return
  match(text, /^ */)
  lead = RLENGTH
  text = substr(text, lead + 1)
  if (lead + length(text) > 72) gsub(/   +/, "  ", text)
  while (lead + length(text) > 72) {
    cut = 0
    if (text ~ /\(/ && text !~ /\/\*|\*\//) for (cut = 72 - lead; cut > 1 && substr(text, cut, 2) != ", "; cut--) {}
    if (cut < 2) for (cut = 72 - lead; cut > 1 && substr(text, cut + 1, 1) != " "; cut--) {}
    if (cut < 2) break
    print quote(sprintf("%" lead "s", "") substr(text, 1, cut)) > file
    text = substr(text, cut + 1)
    sub(/^ +/, "", text)
    if (!continued++) lead += 4
  }
  print quote(sprintf("%" lead "s", "") text) > file
}

function print_head(file, title)
{
  print ".TH " title " 3 \"\" \"" version "\" \"Tutti programmer's manual\"\n.nh" > file
}

# A row of a table.
function print_row(file, text,   cut)
{
  sub(/^ +/, "", text)
  cut = match(text, /^"[^"]*"(, "[^"]*")*/) ? RLENGTH : match(text, /  /) ? RSTART - 1 : length(text)
  print ".TP\n.B " quote_item(substr(text, 1, cut)) > file
  text = substr(text, cut + 1)
  sub(/^ +/, "", text)
  print mark(text) > file
}

# One paragraph of a comment; an item of a list starts with "- ", a listing with four blanks, a row with two.
function print_paragraph(file, text,   i, n, part)
{
  if (text ~ /^  [^ ]/) {
    print_row(file, text)
    return
  }
  if (text ~ /^    /) {
    print ".PP\n.nf" > file
    n = split(text, part, "\n")
    for (i = 1; i <= n; i++) print_code(file, part[i])
    print ".fi" > file
    return
  }
  if (text ~ /^- /) {
    print ".IP \\(bu 2" > file
    text = substr(text, 3)
  } else {
    print ".PP" > file
  }
  print mark(text) > file
}

# "as X. code: cause. code: cause." as a list of codes.
function print_errors(file, text,   item)
{
  sub(/^Errors: */, "", text)
  if (sub(/^Errors of /, "Of ", text)) {
    item = substr(text, 1, index(text, ":"))
    text = substr(text, index(text, ":") + 2)
    print ".PP" > file
    print quote(item) > file
  }
  while (text != "") {
    item = text
    text = ""
    if (match(item, /[.;] tutti[A-Z][A-Za-z]*: /)) {
      text = substr(item, RSTART + 2)
      item = substr(item, 1, RSTART)
    }
    if (match(item, /^tutti[A-Z][A-Za-z]*: /)) {
      print ".TP" > file
      print ".B " substr(item, 1, RLENGTH - 2) > file
      item = substr(item, RLENGTH + 1)
    } else {
      print ".PP" > file
    }
    print mark(item) > file
  }
}

# The arguments of all functions of the page.
function print_arguments(file,   i, k, n, part, word, key, seen, shown)
{
  for (i = 1; i <= functions; i++) {
    n = split(joined(declaration[i]), part, /, |[()]/)
    for (k = 2; k <= n; k++) {
      if (!match(part[k], /[A-Za-z_]+$/)) continue
      word = substr(part[k], RSTART)
      if (word == "void" || seen[word]++) continue
      key = ((name[1] " " word) in argument) ? name[1] " " word : (name[i] " " word) in argument ? name[i] " " word : word
      if (!(key in argument)) {
        print header ": " name[i] ": " arguments " does not say what " word " is" > "/dev/stderr"
        failed = 1
      }
      if (!shown++) print ".SH ARGUMENTS" > file
      print ".TP\n.BI \"" substr(part[k], 1, RSTART - 1) "\" " word "\n" quote(argument[key]) > file
    }
  }
}

function joined(text)
{
  gsub(/\n */, " ", text)
  return text
}

# A call of the page's functions in each of the small examples, in two at most.
function print_examples(file,   i, k, shown, seen)
{
  for (k = 1; k <= calls && shown < 2; k++)
    for (i = 1; i <= functions && shown < 2; i++) {
      if (index(call[k], name[i] "(") == 0 || seen[call_file[k]]++) continue
      if (!shown++) print ".SH EXAMPLES" > file
      print ".PP\nIn\n.IR examples/small/" call_file[k] ":\n.PP\n.nf" > file
      print_code(file, "    " call[k])
      print ".fi" > file
    }
}

# What a page is about: the first sentence of a text, which ends with a full stop before a capital or at the end.
function title_of(text, page)
{
  if (match(text, /\. [A-Z*]/)) text = substr(text, 1, RSTART - 1)
  sub(/\.$/, "", text)
  if (length(text) > 78 || text ~ /^Errors/) {
    print header ": " page ": the first sentence is the NAME line of its page: begin with one of at most 78 " \
      "characters, not \"" text "\"" > "/dev/stderr"
    failed = 1
  }
  if (text ~ /^[A-Z][a-z]* /) text = tolower(substr(text, 1, 1)) substr(text, 2)
  gsub(/`/, "", text)
  return quote(text)
}

# Cuts a comment into paragraph[1 .. paragraphs]; list items and rows stand alone, listings keep their lines.
function cut_paragraphs(   i, line, fresh, is_table, is_row)
{
  paragraphs = 0
  fresh = 1
  for (i = 1; i <= lines; i++) {
    line = comment[i]
    is_row = !fresh && paragraph[paragraphs] ~ /^[^ -]/ && line ~ /^  [^ ].*[^ ]  +[^ ]/ # right below the text
    if (line == "") {
      fresh = 1
    } else if (fresh || line ~ /^- / || (is_table && line ~ /^  [^ ]/) || is_row) {
      if (fresh || is_row) is_table = line ~ /^  [^ ]/
      paragraph[++paragraphs] = line
      fresh = 0
    } else if (paragraph[paragraphs] ~ /^    /) {
      paragraph[paragraphs] = paragraph[paragraphs] "\n" line
    } else {
      sub(/^ +/, "", line)
      paragraph[paragraphs] = paragraph[paragraphs] " " line
    }
  }
}

function print_texts(file,   i)
{
  print ".SH DESCRIPTION" > file
  for (i = 1; i <= paragraphs; i++)
    if (paragraph[i] !~ /^Errors[: ]/) print_paragraph(file, paragraph[i])
}

# The structs that the declarations name, with what is said of them.
function print_structs(file,   s, i, n, takes, part)
{
  for (s = 1; s <= structs; s++) {
    takes = 0
    for (i = 1; i <= functions; i++)
      if (declaration[i] ~ "[^A-Za-z0-9_]" struct_name[s] "[^A-Za-z0-9_]") takes = 1
    if (!takes) continue
    print ".SH " struct_name[s] > file
    n = split(struct_note[s], part, "\n")
    for (i = 1; i <= n; i++) print_paragraph(file, part[i])
    print ".PP\n.nf" > file
    n = split(struct_text[s], part, "\n")
    for (i = 1; i <= n; i++) print_code(file, part[i])
    print ".fi" > file
  }
}

function print_page(   file, names, i, errors)
{
  file = out "/" name[1] ".3"
  cut_paragraphs()
  print_head(file, name[1])
  names = name[1]
  for (i = 2; i <= functions; i++) names = names ", " name[i]
  print ".SH NAME" > file
  print names " \\- " title_of(paragraph[1], name[1]) > file
  print ".SH SYNOPSIS\n.nf\n.B #include <" header ">\n.PP" > file
  for (i = 1; i <= functions; i++) print_code(file, joined(declaration[i]))
  print ".fi" > file
  print_texts(file)
  print_arguments(file)
  print_structs(file)
  if (sections) print ".SH COMMON TO " toupper(section_title) > file
  for (i = 1; i <= sections; i++) print_paragraph(file, section[i])
  print ".SH RETURN VALUE" > file
  if (declaration[1] ~ /^const char/) print "A text; it is never NULL." > file
  else print "tuttiSuccess, which is 0; tuttiInProgress where that is said; or a code of those under ERRORS." > file
  print ".SH ERRORS" > file
  for (i = 1; i <= paragraphs; i++)
    if (paragraph[i] ~ /^Errors[: ]/) errors = errors print_errors(file, paragraph[i]) "x"
  if (errors == "") print (section_base ? "Those of\n.BR " section_base " (3)." : "None of its own.") > file
  print ".PP\nThe codes are explained in\n.BR tutti (3)." > file
  if (name[1] != "tuttiGetLastError")
    print ".BR tuttiGetLastError (3)\nreturns the sentence that belongs to an error." > file
  print_examples(file)
  close(file)
  for (i = 1; i <= functions; i++) page_of[name[i]] = name[1]
  for (i = 2; i <= functions; i++) {
    print ".so man3/" name[1] ".3" > (out "/" name[i] ".3")
    close(out "/" name[i] ".3")
  }
  all[++pages] = name[1]
  group_of[name[1]] = group
  spoken[name[1]] = section_base
  for (i = 1; i <= paragraphs; i++) spoken[name[1]] = spoken[name[1]] " " paragraph[i]
}

# Once all pages are known: functions of which the page speaks, then those of its group, each page once.
function print_related(page,   file, i, text, word, seen)
{
  file = out "/" page ".3"
  print ".SH SEE ALSO" >> file
  seen[page] = 1
  for (text = spoken[page]; match(text, /tutti[A-Z][A-Za-z]*/); text = substr(text, RSTART + RLENGTH)) {
    word = substr(text, RSTART, RLENGTH)
    if (!(word in page_of) || seen[page_of[word]]++) continue
    print ".BR " page_of[word] " (3)," >> file
  }
  for (i = 1; i <= pages; i++)
    if (group_of[all[i]] == group_of[page] && !seen[all[i]]++) print ".BR " all[i] " (3)," >> file
  if (title != "tutti") print ".BR " title " (3)," >> file
  print ".BR tutti (3)" >> file
  close(file)
}

# The header's own comment, "Title: what it is." and the conventions.
function print_overview(   file)
{
  title = header
  sub(/\.h$/, "", title)
  overview = out "/" title ".3"
  file = overview
  cut_paragraphs()
  print_head(file, title)
  sub(/^[A-Z][a-z]+: /, "", paragraph[1])
  print ".SH NAME\n" title " \\- " title_of(paragraph[1], title) > file
  print ".SH SYNOPSIS\n.nf\n.B #include <" header ">\n.fi" > file
  print ".PP\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs tutti)" > file
  print_texts(file)
}

# Keeps a comment for all pages that follow. The first function it names is the one they are like.
function keep_section(   i)
{
  section_title = comment[1]
  gsub(/^---- | ----$/, "", section_title)
  comment[1] = section[1] = ""
  if (lines == 1) group_title[++group] = toupper(substr(section_title, 1, 1)) substr(section_title, 2)
  cut_paragraphs()
  lines = 0
  sections = paragraphs
  for (i = 1; i <= paragraphs; i++) section[i] = paragraph[i]
  section_base = match(section[1], /tutti[A-Z][A-Za-z]*/) ? substr(section[1], RSTART, RLENGTH) : ""
}

function flush_page()
{
  if (functions) print_page()
  functions = 0
}

BEGIN {
  while ((getline row < arguments) > 0)
    if (row !~ /^#/ && match(row, /: /)) argument[substr(row, 1, RSTART - 1)] = substr(row, RSTART + 2)
  while (("grep -H 'tutti[A-Z][A-Za-z]*(' " examples "/*.c") | getline row) {
    if (!match(row, /[a-z_]+\.c:/)) continue
    call_file[++calls] = substr(row, RSTART, RLENGTH - 1)
    call[calls] = substr(row, RSTART + RLENGTH)
    sub(/^ +(else )?/, "", call[calls])
  }
}

# The declaration is kept on its lines, without the export macro.
/^TUTTI_API / || unfinished {
  text = $0
  if (!unfinished) {
    functions++
    declaration[functions] = ""
    sub(/^TUTTI_API /, "", text)
    match(text, /tutti[A-Za-z0-9]*\(/)
    name[functions] = substr(text, RSTART, RLENGTH - 1)
  } else {
    sub(/^          /, "", text)
    text = "\n" text
  }
  declaration[functions] = declaration[functions] text
  unfinished = text !~ /;/
  next
}

/^\/\* SPDX/ { next }

/^\/\*/ {
  flush_page()
  lines = 0
  open = 1
}

open {
  text = $0
  ends = text ~ /\*\/ *$/
  sub(/^\/\* ?/, "", text)
  sub(/^ \* ?/, "", text)
  sub(/ *\*\/ *$/, "", text)
  comment[++lines] = text
  if (ends) {
    open = 0
    if (!overview) {
      print_overview()
      lines = 0
    } else if (comment[1] ~ /^---- .* ----$/) keep_section()
  }
  next
}

# A type is shown on the header's page under the comment that stands before it.
/^$/ { flush_page(); next }

/^(typedef|#define TUTTI_([A-Z_]+(BYTES|INT|TENSORS|INITIALIZER)|SPLIT_|SHRINK_))/ {
  listing = 1
  note = ""
  if (lines) cut_paragraphs()
  for (i = 1; i <= paragraphs && lines; i++) note = note (i > 1 ? "\n" : "") paragraph[i]
  shown = ""
  if (overview && lines && type_of != comment[1]) {
    type_of = comment[1]
    cut_paragraphs()
    for (i = 1; i <= paragraphs; i++) types[++type_lines] = "\n" paragraph[i]
  }
  lines = 0
}

listing {
  gsub(/ *\\$/, "")
  types[++type_lines] = $0
  shown = shown (shown == "" ? "" : "\n") $0
  if ($0 ~ /^} [A-Za-z_]+;/ && shown ~ /^typedef struct/) {
    struct_name[++structs] = substr($2, 1, index($2, ";") - 1)
    struct_text[structs] = shown
    struct_note[structs] = note
  }
  if ($0 ~ /^}/ || $0 ~ /^typedef.*;/ || $0 ~ /^#define/) listing = 0
}

END {
  flush_page()
  if (type_lines) print ".SH TYPES" > overview
  for (i = 1; i <= type_lines; i++) {
    shows = types[i] !~ /^\n/ # lines of C, else a paragraph
    if (shows && !shown_before) print ".PP\n.nf" > overview
    if (!shows && shown_before) print ".fi" > overview
    if (shows) print_code(overview, types[i])
    else print_paragraph(overview, substr(types[i], 2))
    shown_before = shows
  }
  if (shown_before) print ".fi" > overview
  print ".SH FUNCTIONS" > overview
  for (i = 1; i <= pages; i++) {
    is_last = i == pages || group_of[all[i + 1]] != group_of[all[i]]
    if (group_title[group_of[all[i]]] != "" && group_of[all[i]] != group_of[all[i - 1]])
      print ".SS " group_title[group_of[all[i]]] > overview
    print ".BR " all[i] " (3)" (is_last ? "" : ",") > overview
  }
  print ".SH SEE ALSO\n.BR tutti (1),\n.BR tutti\\-settings (7)" > overview
  for (i = 1; i <= pages; i++) print_related(all[i])
  exit failed
}
