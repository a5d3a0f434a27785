#include "verbs/sweep/optuna.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/home.h"
#include "verbs/json_number.h"

extern char** environ;

namespace maglev::verbs::sweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSeedStep = 1'000'003;  // a trial's own seed from the sweep's
constexpr uint64_t kSeedMask = 0x7fffffff;

// both ends of a pipe, closed when they go
struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("[sweep] no pipe could be made");
  }
  ~Pipe() {
    for (int end : ends)
      if (end >= 0) close(end);
  }
  void shut(int end) { close(std::exchange(ends[size_t(end)], -1)); }
  std::array<int, 2> ends{-1, -1};
};

// what the program prints when it reads `line`
std::string answer_of(const std::string& python, const std::string& script,
                      const std::string& line) {
  Pipe in, out;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  const char* argv[] = {python.c_str(), script.c_str(), nullptr};
  pid_t pid = 0;
  const int failed =
      posix_spawnp(&pid, python.c_str(), &actions, nullptr, const_cast<char**>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw Error("[sweep] " + python + " cannot be run; name a Python by MAGLEV_OPTUNA_PYTHON");
  in.shut(0), out.shut(1);
  // it reads the whole line before it answers, or is gone, which ends nothing here
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(in.ends[1], line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += size_t(count);
  }
  in.shut(1);
  std::signal(SIGPIPE, before);
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(out.ends[0], buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, size_t(count));
  }
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

Json ask(const std::string& python, const Json& question) {
  const std::string script = home_folder() + "/verbs/sweep/optuna_ask.py";
  const Json answer =
      Json::parse(answer_of(python, script, question.dump() + "\n"), nullptr, false);
  if (answer.is_object() && answer.contains("error"))
    throw Error("[sweep] " + answer["error"].get<std::string>() +
                ", or leave out --backend optuna; MAGLEV_OPTUNA_PYTHON names another Python");
  if (!answer.is_object() || !answer.contains("values"))
    throw Error(
        "[sweep] Optuna gave no answer; what it said stands above. Leave out --backend "
        "optuna for the samplers of the engine");
  return answer;
}

// Optuna has no powers of two: it is asked for their exponents
double for_optuna(const search::Dimension& d, double value) {
  return d.powers ? std::log2(value) : value;
}

Json json_of(const search::SearchSpace& space) {
  Json list = Json::array();
  for (const search::Dimension& d : space.dimensions())
    list.push_back(d.kind == search::Dimension::Kind::choice
                       ? Json{{"name", d.name}, {"choices", d.choices}}
                       : Json{{"name", d.name},
                              {"low", for_optuna(d, d.low)},
                              {"high", for_optuna(d, d.high)},
                              {"log", d.log && !d.powers},
                              {"integer", d.kind == search::Dimension::Kind::integer}});
  return list;
}

}  // namespace

std::string find_optuna(const std::string& sampler) {
  if (sampler != "random" && sampler != "tpe")
    throw Error("[sweep] --backend optuna has the samplers random and tpe, got " + sampler +
                "; leave it out for the engine's own " + sampler);
  const char* named = std::getenv("MAGLEV_OPTUNA_PYTHON");
  const std::string own = installed_python();
  const std::string python = named ? named : own.empty() ? "python3" : own;
  search::SearchSpace space;
  space.add({.name = "x"});
  ask_optuna(python, "random", {.space = space, .trials = {}});
  return python;
}

search::Proposal ask_optuna(const std::string& python, const std::string& sampler,
                            const search::Question& question) {
  const auto& dimensions = question.space.dimensions();
  Json trials = Json::array();
  for (const search::SearchTrial& trial : question.trials) {
    if (trial.state == search::TrialState::unscored) continue;
    search::Values values = trial.values;
    for (size_t d = 0; d < values.size(); ++d) values[d] = for_optuna(dimensions[d], values[d]);
    trials.push_back({{"values", values},
                      {"state", name_of(trial.state)},
                      {"score", finite_or_null<Json>(trial.score)}});
  }
  const uint64_t seed = (question.seed * kSeedStep + uint64_t(question.number)) & kSeedMask;
  const Json answer = ask(python, {{"sampler", sampler},
                                   {"seed", seed},
                                   {"space", json_of(question.space)},
                                   {"trials", std::move(trials)}});
  auto values = answer["values"].get<search::Values>();
  if (values.size() != question.space.size())
    throw Error("[sweep] Optuna answered with " + std::to_string(values.size()) + " values for " +
                std::to_string(question.space.size()) + " settings");
  for (size_t d = 0; d < values.size(); ++d)
    if (dimensions[d].powers) values[d] = std::exp2(values[d]);
  return {.values = values};
}

}  // namespace maglev::verbs::sweep
