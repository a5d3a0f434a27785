#include "base/processes/machines_meet.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/random.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/home.h"
#include "base/processes/socket.h"

namespace maglev {
namespace {

constexpr const char* kHello = "maglev-machine-1";
constexpr double kAnswer = 10;  // seconds that who has connected has to say what it wants
constexpr double kRetry = 0.2;  // between attempts to reach a machine that does not listen yet
constexpr double kForEver = 1e12;
constexpr double kNeighbour = 60;  // seconds in which neighbours reach each other

std::string random_word() {
  uint64_t bits[2] = {};
  if (getrandom(bits, sizeof bits, 0) != sizeof bits)
    throw Error("[machines] the system gives no random numbers");
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(bits[0]),
                static_cast<unsigned long long>(bits[1]));
  return text;
}

// What a machine says of itself, and what it is answered. Fields are parted by tabs; a build may
// have blanks.
using Fields = std::vector<std::string>;
Fields fields_of(const std::string& line) {
  Fields fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
  return fields;
}

// a small whole number; -1: it is none
int number_of(const std::string& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

struct Guest {
  Socket socket;
  std::string address, name;
  std::string port;  ///< where it listens for the machine behind it
};

// all other machines, in the order in which they came
std::vector<Guest> guests_of(const Socket& listener, const MachineLine::Run& run,
                             const std::function<void(const std::string&)>& say) {
  std::vector<Guest> guests;
  Callers callers(listener, kAnswer);
  while (int(guests.size()) < run.machines - 1) {
    std::vector<int> waiting;
    for (const Guest& guest : guests) waiting.push_back(guest.socket.fd());
    std::optional<Callers::Caller> caller = callers.next(kForEver, waiting);
    // who waits says nothing: it left
    for (size_t i = guests.size(); i > 0; --i)
      if (readable(guests[i - 1].socket, 0)) {
        say("machine " + guests[i - 1].name + " left again");
        guests.erase(guests.begin() + std::ptrdiff_t(i - 1));
      }
    if (!caller) continue;
    Socket& socket = caller->socket;
    const auto fields = fields_of(caller->line);
    if (fields.size() != 4 || fields[0] != kHello) {
      put_line(socket, "no\tit is no machine of a run");
      continue;
    }
    const std::string peer = peer_of(socket), name = fields[3] + " (" + peer + ")";
    if (fields[1] != run.build) {
      say("machine " + name + " was refused: its program is " + fields[1] + ", this one is " +
          run.build);
      put_line(socket, "no\tits program is " + run.build + ", this one is " + fields[1] +
                           "; all machines need the same");
      continue;
    }
    if (!put_line(socket, "wait")) continue;
    guests.push_back({std::move(socket), peer, name, fields[2]});
    say("machine " + name + " has come, " + std::to_string(guests.size() + 1) + " of " +
        std::to_string(run.machines));
  }
  return guests;
}

// the two connections of the machine behind, which knows `secret`
Neighbour neighbour_behind(const Socket& listener, const std::string& secret,
                           const std::string& name) {
  Neighbour behind{.data = Socket(), .news = Socket(), .name = name};
  const double until = steady_s() + kNeighbour;
  Callers callers(listener, kAnswer);
  while (!behind.data || !behind.news) {
    std::optional<Callers::Caller> caller = callers.next(until);
    if (!caller)
      throw Error("[machines] " + name +
                  ", the machine behind this one, does not reach it; is the "
                  "network between them open, for every port?");
    if (caller->line == secret + "\tdata") behind.data = std::move(caller->socket);
    else if (caller->line == secret + "\tnews") behind.news = std::move(caller->socket);
  }
  return behind;
}

Neighbour neighbour_before(const Address& address, const std::string& secret,
                           const std::string& name) {
  Neighbour before{.data = Socket(), .news = Socket(), .name = name};
  const auto connected = [&](const char* what) {
    Socket socket = connected_to(address, kNeighbour);
    if (!socket || !put_line(socket, secret + "\t" + what))
      throw Error("[machines] " + name + ", the machine before this one, is not reached at " +
                  address.text() + " (" + strerror(errno) +
                  "); is the network between them open, for every port?");
    return socket;
  };
  before.data = connected("data");
  before.news = connected("news");
  return before;
}

}  // namespace

Met wait_for_machines(const std::string& address, const MachineLine::Run& run,
                      const std::function<void(const std::string&)>& say) {
  const Address wanted = parsed_address(address, "[HOST:]PORT");
  const Socket listener = listening(wanted);
  const Address shown{wanted.host.empty() ? host_name() : wanted.host,
                      std::to_string(port_of(listener))};
  say("waits for " + std::to_string(run.machines - 1) + " of " + std::to_string(run.machines) +
      " machines; on each: " + command_name() + " join " + shown.text());
  std::vector<Guest> guests = guests_of(listener, run, say);
  const std::string secret = random_word();
  for (size_t i = 0; i < guests.size(); ++i) {
    // the second machine has reached the first one already: no address
    const Guest first{.socket = Socket(), .address = "", .name = host_name(), .port = ""};
    const Guest& before = i == 0 ? first : guests[i - 1];
    const std::string behind = i + 1 < guests.size() ? guests[i + 1].name : "";
    std::string answer = "yes";
    for (const std::string& field :
         {std::to_string(i + 1), std::to_string(run.machines), std::to_string(run.processes),
          secret, before.address, before.port, before.name, behind})
      answer += "\t" + field;
    if (!put_line(guests[i].socket, answer))
      throw Error("[machines] " + guests[i].name + " left as the run began; begin it again");
  }
  Met met;
  met.run = run;
  met.behind = neighbour_behind(listener, secret, guests[0].name);
  return met;
}

Met come_to_machines(const std::string& address, const std::string& build, double patience_s,
                     const std::function<void(const std::string&)>& say) {
  const Address first = parsed_address(address, "HOST:PORT");
  if (first.host.empty()) throw no_address(address, "HOST:PORT");
  const Socket listener = listening({"", "0"});
  const double until = steady_s() + patience_s;
  Socket socket;
  // the run may begin later than this
  for (bool said = false; !(socket = connected_to(first, until - steady_s()));) {
    const std::string why = strerror(errno);
    if (steady_s() > until)
      throw Error(
          "[machines] nobody listens at " + address + " (" + why +
          "): a run listens that is begun there with machines=N --listen PORT, until it has "
          "all its machines");
    if (!std::exchange(said, true))
      say("nobody listens at " + address + " yet (" + why + "): waits for the run to begin");
    usleep(useconds_t(kRetry * 1e6));
  }
  const Error stranger("[machines] what listens at " + address +
                       " is no run that waits for machines, or it has ended");
  const std::string hello = std::string(kHello) + "\t" + build + "\t" +
                            std::to_string(port_of(listener)) + "\t" + host_name();
  auto fields = put_line(socket, hello) ? fields_of(line_of(socket, kAnswer)) : Fields();
  if (fields.size() == 2 && fields[0] == "no")
    throw Error("[machines] the run at " + address + " refuses this machine: " + fields[1]);
  if (fields != Fields{"wait"}) throw stranger;
  say("has come to the run at " + address + ", which begins when all machines are there");
  fields = fields_of(line_of(socket, kForEver));
  Met met;
  if (fields.size() >= 8 && fields[0] == "yes") {
    met.machine = number_of(fields[1]);
    met.run = {.machines = number_of(fields[2]), .processes = number_of(fields[3]), .build = build};
  }
  if (met.machine < 1 || met.machine >= met.run.machines || met.run.processes < met.run.machines)
    throw stranger;
  const bool second = met.machine == 1;
  met.before = neighbour_before(second ? first : Address{fields[5], fields[6]}, fields[4],
                                second ? fields[7] + " (" + first.host + ")" : fields[7]);
  // an empty field at the end is none
  if (met.machine + 1 < met.run.machines)
    met.behind = neighbour_behind(listener, fields[4], fields.size() > 8 ? fields[8] : "?");
  return met;
}

}  // namespace maglev
