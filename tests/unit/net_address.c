/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as text and in 32 bytes, and the choice of an interface.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/private.h"

static struct tt_address parsed(const char *text)
{
  struct tt_address address;
  assert_int_equal(tt_address_parse(&address, text), tuttiSuccess);
  return address;
}

static void numeric_addresses_come_back_as_the_same_text(void **state)
{
  (void)state;
  static const char *const texts[] = {"192.0.2.1:4711", "[2001:db8::1]:65535", "[::1]:1",
                                      "127.0.0.1:0", "[fe80::1%lo]:4711"};
  char text[TT_ADDRESS_TEXT_BYTES];
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct tt_address address = parsed(texts[i]);
    assert_string_equal(tt_address_text(&address, text, sizeof text), texts[i]);
  }
}

static void names_are_resolved(void **state)
{
  (void)state;
  struct tt_address address = parsed("localhost:80");
  assert_int_equal(tt_address_is_loopback(&address), 1);
}

static void wrong_addresses_are_refused_with_the_form_wanted(void **state)
{
  (void)state;
  static const char *const texts[] = {"", "host", ":80", "host:", "host:x", "host:-1", "host:65536",
                                      "host:1x", "::1:4711", "1:2:3",
                                      "fe80::1:80", "[::1]", "[::1]4711", "[]:1", "[::1:1",
                                      "host: 1", "host:99999999999999999999"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct tt_address address = {.len = 77};
    assert_int_equal(tt_address_parse(&address, texts[i]), tuttiInvalidArgument);
    assert_int_equal(address.len, 77);
    assert_non_null(strstr(tt_last_sentence(), "host:port"));
  }
}

static void local_addresses_have_a_text(void **state)
{
  (void)state;
  struct tt_address address;
  char text[TT_ADDRESS_TEXT_BYTES];
  memset(&address, 0, sizeof address);
  assert_string_equal(tt_address_text(&address, text, sizeof text), "no address");
  address.local.sun_family = AF_UNIX;
  memcpy(address.local.sun_path, "\0tutti-1a2b", 11);
  address.len = offsetof(struct sockaddr_un, sun_path) + 11;
  assert_string_equal(tt_address_text(&address, text, sizeof text), "@tutti-1a2b");
  assert_int_equal(tt_address_is_loopback(&address), 1);
}

static void packed_addresses_come_back(void **state)
{
  (void)state;
  static const char *const texts[] = {"192.0.2.1:4711", "[2001:db8::1]:65535", "[::1]:1"};
  uint8_t packed[TT_ADDRESS_PACKED_BYTES];
  char text[TT_ADDRESS_TEXT_BYTES];
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct tt_address address = parsed(texts[i]), back;
    tt_address_pack(&address, packed);
    assert_int_equal(tt_address_unpack(&back, packed), tuttiSuccess);
    assert_int_equal(back.len, address.len);
    assert_string_equal(tt_address_text(&back, text, sizeof text), texts[i]);
  }
}

static void no_address_packs_to_zeros(void **state)
{
  (void)state;
  uint8_t packed[TT_ADDRESS_PACKED_BYTES], zeros[TT_ADDRESS_PACKED_BYTES] = {0};
  struct tt_address address;
  memset(&address, 0, sizeof address);
  tt_address_pack(&address, packed);
  assert_memory_equal(packed, zeros, sizeof zeros);
  address.len = 77;
  assert_int_equal(tt_address_unpack(&address, packed), tuttiSuccess);
  assert_int_equal(address.len, 0);
}

static void the_packed_form_is_the_documented_one(void **state)
{
  (void)state;
  static const uint8_t wanted[TT_ADDRESS_PACKED_BYTES] = {4, 0, 0x67, 0x12, 0, 0, 0, 0,
                                                         192, 0, 2, 1};
  uint8_t packed[TT_ADDRESS_PACKED_BYTES];
  struct tt_address address = parsed("192.0.2.1:4711");
  tt_address_pack(&address, packed);
  assert_memory_equal(packed, wanted, sizeof wanted);
}

static void a_local_listener_packs_by_its_name(void **state)
{
  (void)state;
  static const char name[] = "tutti-0123456789abcdef", longer[] = "a-name-that-is-no-door-of-ours";
  struct tt_address address = {.len = offsetof(struct sockaddr_un, sun_path) + sizeof name}, back;
  uint8_t packed[TT_ADDRESS_PACKED_BYTES], zeros[TT_ADDRESS_PACKED_BYTES] = {0};
  address.local.sun_family = AF_UNIX;
  memcpy(address.local.sun_path + 1, name, sizeof name - 1);
  tt_address_pack(&address, packed);
  assert_int_equal(tt_address_unpack(&back, packed), tuttiSuccess);
  assert_int_equal(back.len, address.len);
  assert_memory_equal(&back.any, &address.any, address.len);
  address.len = offsetof(struct sockaddr_un, sun_path) + sizeof longer;
  memcpy(address.local.sun_path + 1, longer, sizeof longer - 1);
  tt_address_pack(&address, packed);
  assert_memory_equal(packed, zeros, sizeof zeros);
}

static void a_packed_address_of_unknown_family_is_refused(void **state)
{
  (void)state;
  uint8_t packed[TT_ADDRESS_PACKED_BYTES] = {5};
  struct tt_address address = {.len = 77};
  assert_int_equal(tt_address_unpack(&address, packed), tuttiInvalidArgument);
  assert_int_equal(address.len, 77);
}

static void a_link_local_scope_does_not_travel(void **state)
{
  (void)state;
  uint8_t packed[TT_ADDRESS_PACKED_BYTES];
  struct tt_address address = parsed("[fe80::1%lo]:4711"), back;
  struct tt_settings settings;
  char name[16];
  tt_address_pack(&address, packed);
  for (int i = 4; i < 8; i++) assert_int_equal(packed[i], 0);
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  assert_int_equal(tt_interface_choose(&settings, &address, name), tuttiSuccess);
  assert_int_equal(tt_address_unpack(&back, packed), tuttiSuccess);
  assert_int_equal(back.v6.sin6_scope_id, if_nametoindex(name));
}

static void loopback_addresses_are_known(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int loopback;
  } rows[] = {{"127.0.0.1:1", 1}, {"127.9.9.9:1", 1}, {"128.0.0.1:1", 0}, {"[::1]:1", 1},
              {"[::2]:1", 0},     {"[::ffff:127.0.0.1]:1", 1}, {"0.0.0.0:1", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tt_address address = parsed(rows[i].text);
    assert_int_equal(tt_address_is_loopback(&address), rows[i].loopback);
  }
  struct tt_address none = {.len = 0};
  assert_int_equal(tt_address_is_loopback(&none), 0);
}

/* "name address flags": u up, r running, l loopback. */
static struct tt_interface one(const char *name, const char *address, const char *flags)
{
  struct tt_interface made = {.up = strchr(flags, 'u') != NULL,
                              .running = strchr(flags, 'r') != NULL,
                              .loopback = strchr(flags, 'l') != NULL};
  strcpy(made.name, name);
  made.address = parsed(address);
  return made;
}

#define LO4 one("lo", "127.0.0.1:0", "url")
#define LO6 one("lo", "[::1]:0", "url")
#define DOCKER one("docker0", "172.17.0.1:0", "ur")
#define ETH0 one("eth0", "192.0.2.2:0", "ur")
#define ETH1 one("eth1", "192.0.2.3:0", "ur")
#define ETH10 one("eth10", "192.0.2.10:0", "ur")
#define ETH0_6 one("eth0", "[2001:db8::2]:0", "ur")
#define ETH0_LOCAL one("eth0", "[fe80::2]:0", "ur")
#define DOWN one("eth2", "192.0.2.4:0", "")
#define UNPLUGGED one("eth3", "192.0.2.5:0", "u")

/* The index chosen from up to 6 interfaces; the list ends at the first empty name. */
static int chosen(const char *spec, int family, const struct tt_interface *list)
{
  int count = 0;
  while (count < 6 && list[count].name[0]) count++;
  return tt_interface_select(list, count, spec, family);
}

static void without_a_setting_real_interfaces_go_first(void **state)
{
  (void)state;
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){LO4, DOCKER, DOWN, ETH0, ETH1}), 3);
  assert_int_equal(chosen(NULL, 0, (struct tt_interface[7]){LO4, DOCKER, ETH0, ETH1}), 2);
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){LO4, UNPLUGGED, ETH1}), 2);
}

static void last_resorts_are_taken_in_order(void **state)
{
  (void)state;
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){LO4, LO6, DOCKER, ETH0_LOCAL}), 3);
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){LO4, LO6, DOCKER}), 2);
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){LO4, LO6, UNPLUGGED}), 0);
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){LO4}), 0);
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){DOWN, LO6}), 1);
  assert_int_equal(chosen("", 0, (struct tt_interface[7]){DOWN}), -1);
  assert_int_equal(tt_interface_select(NULL, 0, "", 0), -1);
}

static void the_family_is_a_must(void **state)
{
  (void)state;
  struct tt_interface list[7] = {LO4, ETH0, LO6, ETH0_LOCAL, ETH0_6};
  assert_int_equal(chosen("", AF_INET, list), 1);
  assert_int_equal(chosen("", AF_INET6, list), 4);
  assert_int_equal(chosen("lo", AF_INET6, list), 2);
  assert_int_equal(chosen("", AF_INET6, (struct tt_interface[7]){LO4, ETH0}), -1);
}

static void names_are_prefixes(void **state)
{
  (void)state;
  struct tt_interface list[7] = {LO4, DOCKER, ETH0, ETH10, ETH1};
  assert_int_equal(chosen("eth", 0, list), 2);
  assert_int_equal(chosen("eth1", 0, list), 3);
  assert_int_equal(chosen("lo", 0, list), 0);
  assert_int_equal(chosen("ib,docker", 0, list), 1);
  assert_int_equal(chosen("ib", 0, list), -1);
  assert_int_equal(chosen("eth0:1", 0, list), -1);
}

static void equals_wants_the_whole_name(void **state)
{
  (void)state;
  struct tt_interface list[7] = {LO4, DOCKER, ETH0, ETH10, ETH1};
  assert_int_equal(chosen("=eth1", 0, list), 4);
  assert_int_equal(chosen("=eth", 0, list), -1);
  assert_int_equal(chosen("=ib0,eth10", 0, list), 3);
}

static void caret_excludes(void **state)
{
  (void)state;
  struct tt_interface list[7] = {LO4, DOCKER, ETH0, ETH10, ETH1};
  assert_int_equal(chosen("^eth0", 0, list), 3);
  assert_int_equal(chosen("^eth1", 0, list), 2);
  assert_int_equal(chosen("^eth", 0, list), 1);
  assert_int_equal(chosen("^eth,docker", 0, list), 0);
  assert_int_equal(chosen("^eth,docker,lo", 0, list), -1);
  assert_int_equal(chosen("^=eth0,eth1", 0, list), 3);
}

static void odd_lists_do_no_harm(void **state)
{
  (void)state;
  struct tt_interface list[7] = {LO4, ETH0};
  assert_int_equal(chosen(",,eth,", 0, list), 1);
  assert_int_equal(chosen(",", 0, list), -1);
  assert_int_equal(chosen("^", 0, list), 1);
  assert_int_equal(chosen("=", 0, list), 1);
}

static void this_machine_has_an_interface(void **state)
{
  (void)state;
  struct tt_settings settings;
  struct tt_address address;
  char name[16];
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  assert_int_equal(tt_interface_choose(&settings, &address, name), tuttiSuccess);
  assert_true(if_nametoindex(name) > 0);
  strcpy(settings.socket_ifname, "=lo");
  settings.socket_family = 1;
  assert_int_equal(tt_interface_choose(&settings, &address, name), tuttiSuccess);
  assert_string_equal(name, "lo");
  assert_int_equal(tt_address_is_loopback(&address), 1);
}

static void a_setting_that_fits_nothing_is_an_error_with_the_list(void **state)
{
  (void)state;
  struct tt_settings settings;
  struct tt_address address = {.len = 77};
  char name[16];
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  strcpy(settings.socket_ifname, "nosuch");
  assert_int_equal(tt_interface_choose(&settings, &address, name), tuttiSystemError);
  assert_int_equal(address.len, 77);
  assert_non_null(strstr(tt_last_sentence(), "TUTTI_SOCKET_IFNAME \"nosuch\""));
  assert_non_null(strstr(tt_last_sentence(), "lo 127.0.0.1"));
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  unsetenv("TUTTI_SOCKET_IFNAME");
  unsetenv("TUTTI_SOCKET_FAMILY");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numeric_addresses_come_back_as_the_same_text),
      cmocka_unit_test(names_are_resolved),
      cmocka_unit_test(wrong_addresses_are_refused_with_the_form_wanted),
      cmocka_unit_test(local_addresses_have_a_text),
      cmocka_unit_test(packed_addresses_come_back),
      cmocka_unit_test(no_address_packs_to_zeros),
      cmocka_unit_test(the_packed_form_is_the_documented_one),
      cmocka_unit_test(a_local_listener_packs_by_its_name),
      cmocka_unit_test(a_packed_address_of_unknown_family_is_refused),
      cmocka_unit_test(a_link_local_scope_does_not_travel),
      cmocka_unit_test(loopback_addresses_are_known),
      cmocka_unit_test(without_a_setting_real_interfaces_go_first),
      cmocka_unit_test(last_resorts_are_taken_in_order),
      cmocka_unit_test(the_family_is_a_must),
      cmocka_unit_test(names_are_prefixes),
      cmocka_unit_test(equals_wants_the_whole_name),
      cmocka_unit_test(caret_excludes),
      cmocka_unit_test(odd_lists_do_no_harm),
      cmocka_unit_test(this_machine_has_an_interface),
      cmocka_unit_test(a_setting_that_fits_nothing_is_an_error_with_the_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
