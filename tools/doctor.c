/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti doctor`: a script checks hosts, by what `tutti info` tells on each of them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

#define WORDS_MOST 1024 /* hosts and options */

static const char *const help =
    "usage: tutti doctor [OPTION...] [HOST...]\n\n"
    "Checks this host, or others through ssh, which need python3. It compares versions and settings, shows which\n"
    "interface and transports the library would use, checks limits, and connects from each host to each other one,\n"
    "from any port to any port, as ranks do. At the end it says what to set. HOST is a name for ssh, which must work\n"
    "without a password. The settings are those of a program that ssh starts; a launcher may give others.\n\n"
    "      --ssh COMMAND   starts a command on a host (default: \"ssh -o BatchMode=yes -o ConnectTimeout=10\")\n"
    "      --tutti PATH    where this program is on the hosts (default: tutti, as their shells find it)\n"
    "  -h, --help          this text\n\n"
    "The exit status is 0 if all is well, 3 if there is something to set, and 1 if it cannot ask a host.\n";

int command_doctor(int argc, char **argv)
{
  char self[PATH_MAX];
  const char *words[WORDS_MOST + 2] = {"--self", self};
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = 0;
  if (argc > WORDS_MOST) {
    fprintf(stderr, "tutti doctor: %d words are too many: give at most %d hosts at once\n", argc, WORDS_MOST - 8);
    return 2;
  }
  for (int a = 1; a < argc; a++) {
    if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0) {
      fputs(help, stdout);
      return 0;
    }
    words[a + 1] = argv[a];
  }
  script_become("doctor", words, argc + 1);
  fprintf(stderr, "tutti doctor: %s\n", script_lacks(errno));
  return 1;
}
