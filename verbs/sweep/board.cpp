#include "verbs/sweep/board.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/find.h"
#include "base/core/printed.h"
#include "base/core/words.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "verbs/json_number.h"
#include "verbs/sweep/optuna.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::sweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBytes = size_t(16) << 20;
constexpr const char* kBoardLock = "/sweep.lock";
constexpr auto kLockPoll = std::chrono::milliseconds(20);

double real(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

Json json_of(const search::Dimension& d) {
  Json json{{"name", d.name}};
  if (d.kind == search::Dimension::Kind::choice) json["choices"] = d.choices;
  else
    json.update({{"low", d.low},
                 {"high", d.high},
                 {"log", d.log},
                 {"integer", d.kind == search::Dimension::Kind::integer}});
  // sweeps of before there were such say nothing of it
  if (d.powers) json["powers_of_two"] = true;
  return json;
}

// how many trials is not part of it: more may be asked for
Json identity_of(const SweepRequest& r) {
  Json space = Json::array();
  for (const search::Dimension& d : r.space.dimensions()) space.push_back(json_of(d));
  Json json{{"algorithm", r.algo},
            {"environment", r.env},
            {"settings", r.named},
            {"space", space},
            {"sampler", r.sampler},
            {"backend", r.python.empty() ? "embedded" : "optuna"},
            {"independent", r.options.independent},
            {"start", r.options.start},
            {"population", r.options.population},
            {"seed", r.seed},
            {"seeds", r.seeds}};
  if (r.asha) json["rungs"] = r.asha->rungs, json["keep"] = r.asha->keep;
  return json;
}

Json read_json(const std::string& path, const std::string& remedy) {
  try {
    return Json::parse(read_file(path, kMaxBytes));
  } catch (const Json::exception&) {
    throw Error("[" + path + "] is damaged; " + remedy);
  }
}

// a space's dimensions as people write them
std::string space_text(const Json& space) {
  std::vector<std::string> words;
  for (const Json& d : space) {
    search::Dimension dimension{.name = d.at("name")};
    if (d.contains("choices")) {
      dimension.kind = search::Dimension::Kind::choice;
      dimension.choices = d.at("choices").get<std::vector<std::string>>();
    } else {
      if (d.at("integer")) dimension.kind = search::Dimension::Kind::integer;
      dimension.low = d.at("low"), dimension.high = d.at("high"), dimension.log = d.at("log");
      dimension.powers = d.value("powers_of_two", false);
    }
    words.push_back(dimension.written());
  }
  return joined(words, " ");
}

// the first member of `asked` that is otherwise in `there`; of an object the first within it
std::string difference(const Json& there, const Json& asked) {
  for (const auto& [name, value] : asked.items()) {
    const Json other = there.is_object() ? there.value(name, Json()) : Json();
    if (other == value) continue;
    if (value.is_object()) return difference(other, value);
    const auto text = [&](const Json& json) {
      if (name == "space" && json.is_array()) return space_text(json);
      return json.is_null() ? "nothing" : json.is_string() ? json.get<std::string>() : json.dump();
    };
    return name + ": " + text(other) + " there, " + text(value) + " asked for";
  }
  return "";
}

// neither its worker lives nor the run, which saves for a moment longer
bool left_behind(const std::string& folder) {
  for (const char* lock : {"/trial.lock", "/run/run.lock", "/run/seeds.lock"})
    if (path_exists(folder + lock) && FileLock::held(folder + lock)) return false;
  // seeds whose group was killed
  return std::ranges::none_of(runs_in(folder + "/run"), [](const std::string& seed) {
    const std::string lock = seed + "/run.lock";
    return path_exists(lock) && FileLock::held(lock);
  });
}

// a trial's run, or its seeds, are counted into the sweep's row
void count_trial(const std::string& folder, RunRow& sweep) {
  if (is_seeds(folder)) count_in(train::seeds_row(folder, ""), sweep);
  else if (is_run(folder)) count_in(run_row(folder, ""), sweep);
}

}  // namespace

RunRow sweep_row(const std::string& folder, const std::string& name) {
  RunRow row{.name = name, .path = folder, .status = {}};
  int64_t begun = 0, ended = 0;
  try {
    const Json asked = read_json(folder + "/sweep.json", "take another --out");
    row.status.algo = asked.at("algorithm"), row.status.env = asked.at("environment");
    row.status.env_title = row.status.env;
    for (const std::string& number : list_dir(folder + "/trials")) {
      const std::string trial = folder + "/trials/" + number;
      if (!path_exists(trial + "/trial.json")) continue;
      const Json json = read_json(trial + "/trial.json", "remove " + trial);
      const std::string state = json.at("state");
      begun += 1, ended += state != name_of(search::TrialState::running);
      if (state == name_of(search::TrialState::finished))
        row.status.return_mean = std::fmax(row.status.return_mean, real(json.at("score")));
      count_trial(trial + "/run", row);
    }
    row.status.state = std::to_string(ended) + " of " + counted(begun, "trial") + " ended";
  } catch (const Json::exception& e) {
    row.status.state = "unknown", row.status.message = e.what();
  } catch (const Error& e) {
    row.status.state = "unknown", row.status.message = e.what();
  }
  return row;
}

std::vector<search::SearchTrial> plain(const std::vector<BoardTrial>& trials) {
  std::vector<search::SearchTrial> list;
  for (const BoardTrial& row : trials) list.push_back(row.trial);
  return list;
}

Board::Board(SweepRequest request, std::string folder)
    : request_(std::move(request)), folder_(std::move(folder)) {
  const std::string path = folder_ + "/sweep.json";
  const Error other_things("[" + folder_ +
                           "] holds no sweep, and is not empty; take another --out");
  expect_own_name(folder_);
  // nothing is left in a folder of something else. Who begins a sweep there has the lock first
  if (path_exists(folder_) && !list_dir(folder_).empty() && !path_exists(folder_ + kBoardLock) &&
      !path_exists(path))
    throw other_things;
  make_dirs(folder_);
  const FileLock lock = wait_for_lock();
  const Json identity = identity_of(request_);
  if (path_exists(path)) {
    const Json there = read_json(path, "take another --out");
    std::string other;
    try {
      other = difference(there, identity);
    } catch (const Json::exception&) {
      throw Error("[" + path + "] is damaged; take another --out");
    }
    if (!other.empty())
      throw Error("[" + folder_ + "] holds a sweep with another " + other +
                  "; ask for the same again, or take another --out");
    return;
  }
  if (list_dir(folder_).size() > 1) throw other_things;
  make_dirs(folder_ + "/trials");
  write_atomic(folder_ + "/settings.yaml", request_.settings);
  write_atomic(path, identity.dump(1) + "\n");
}

std::string Board::folder_of(int64_t number) const {
  return folder_ + "/trials/" + std::to_string(number);
}

// others hold it for a moment
FileLock Board::wait_for_lock() const {
  const std::string path = folder_ + kBoardLock;
  for (;;) {
    while (FileLock::held(path)) std::this_thread::sleep_for(kLockPoll);
    try {
      return FileLock(path);
    } catch (const Error&) {
      // another was faster; what else is wrong is said
      if (!FileLock::held(path)) return FileLock(path);
    }
  }
}

BoardTrial Board::read(int64_t number) const {
  const std::string path = folder_of(number) + "/trial.json";
  const std::string remedy = "remove " + folder_of(number) + ", and the trial begins anew";
  const Json json = read_json(path, remedy);
  try {
    BoardTrial row;
    search::SearchTrial& trial = row.trial;
    trial.number = json.at("number");
    trial.values = json.at("values").get<search::Values>();
    const std::string state = json.at("state");
    const auto names = names_of(search::TrialState{});
    const auto found = std::ranges::find(names, state);
    if (trial.number != number || trial.values.size() != request_.space.size() ||
        found == names.end())
      throw Error("[" + path + "] is damaged; " + remedy);
    trial.state = search::TrialState(found - names.begin());
    trial.score = real(json.at("score")), trial.cost = real(json.at("seconds"));
    trial.ended = json.at("ended"), trial.parent = json.at("parent");
    trial.rungs = json.at("rungs").get<std::vector<double>>();
    row.promoted = json.at("promoted"), row.message = json.at("message");
    row.same_as = json.value("same_as", int64_t(-1));
    row.killed = json.value("killed", int64_t(0));
    return row;
  } catch (const Json::exception&) {
    throw Error("[" + path + "] is damaged; " + remedy);
  }
}

void Board::write(const BoardTrial& row) const {
  const search::SearchTrial& trial = row.trial;
  const Json json{{"number", trial.number},
                  {"settings", settings_of(trial.values)},
                  {"values", trial.values},
                  {"state", name_of(trial.state)},
                  {"score", finite_or_null<Json>(trial.score)},
                  {"seconds", finite_or_null<Json>(trial.cost)},
                  {"ended", trial.ended},
                  {"parent", trial.parent},
                  {"rungs", trial.rungs},
                  {"promoted", row.promoted},
                  {"message", row.message},
                  {"same_as", row.same_as},
                  {"killed", row.killed}};
  write_atomic(folder_of(trial.number) + "/trial.json", json.dump(1) + "\n");
}

int64_t Board::number_of(const std::string& name) const {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0)
    throw Error("[" + folder_ + "/trials/" + name +
                "] is no trial of this sweep, whose folders are numbers; move it elsewhere");
  return number;
}

std::vector<BoardTrial> Board::trials() const {
  std::vector<int64_t> numbers;
  // a folder without its file was being made when its worker was killed
  for (const std::string& name : list_dir(folder_ + "/trials"))
    if (path_exists(folder_ + "/trials/" + name + "/trial.json"))
      numbers.push_back(number_of(name));
  std::ranges::sort(numbers);
  std::vector<BoardTrial> all;
  for (int64_t number : numbers) all.push_back(read(number));
  return all;
}

std::optional<search::Proposal> Board::propose(const std::vector<BoardTrial>& all) const {
  const auto known = plain(all);
  // one whose folder was removed is tried again
  int64_t number = 0;
  while (number < int64_t(known.size()) && known[size_t(number)].number == number) ++number;
  const search::Question question{
      .space = request_.space, .trials = known, .seed = request_.seed, .number = number};
  if (!request_.python.empty()) return ask_optuna(request_.python, request_.sampler, question);
  const auto& sampler = find_row(search::sampler_table(), request_.sampler, "[sweep] ", "sampler");
  return sampler.ask(question, request_.options);
}

std::optional<Claim> Board::claim(bool begin_new, const std::set<int64_t>& put_off) {
  const FileLock lock = wait_for_lock();
  std::vector<BoardTrial> all = trials();
  const auto take = [&](BoardTrial task) -> Claim {
    task.trial.state = search::TrialState::running, task.trial.ended = 0;
    task.message.clear();
    make_dirs(folder_of(task.trial.number));
    FileLock own(folder_of(task.trial.number) + "/trial.lock");
    write(task);
    return {.task = std::move(task), .lock = std::move(own)};
  };
  for (const BoardTrial& row : all)
    if (row.trial.state == search::TrialState::running && !put_off.contains(row.trial.number) &&
        left_behind(folder_of(row.trial.number)))
      return take(row);
  if (request_.asha) {
    std::vector<int64_t> promoted(all.empty() ? 0 : size_t(all.back().trial.number) + 1, 1);
    for (const BoardTrial& row : all) promoted[size_t(row.trial.number)] = row.promoted;
    const auto known = plain(all);
    if (const auto number = request_.asha->promote(known, promoted)) {
      BoardTrial row = read(*number);
      ++row.promoted;
      // one that ended before it could be stopped has reached them all
      if (row.trial.state == search::TrialState::stopped) return take(row);
      write(row);
      all = trials();
    }
  }
  if (!begin_new || int64_t(all.size()) >= request_.trials) return std::nullopt;
  const auto proposal = propose(all);
  if (!proposal) return std::nullopt;
  BoardTrial row;
  while (row.trial.number < int64_t(all.size()) &&
         all[size_t(row.trial.number)].trial.number == row.trial.number)
    ++row.trial.number;
  row.trial.values = proposal->values, row.trial.parent = proposal->parent;
  row.trial.cost = 0;
  row.promoted = request_.asha ? 1 : 0;
  return take(row);
}

std::optional<BoardTrial> Board::tried(const BoardTrial& row) const {
  // rungs and parents make other runs of the same settings, and members of a population are several
  if (request_.asha || request_.sampler == "pbt") return std::nullopt;
  const auto has_ended = [](const BoardTrial& other) {
    return other.trial.state == search::TrialState::finished ||
           other.trial.state == search::TrialState::unscored;
  };
  for (const BoardTrial& other : trials())
    if (other.same_as < 0 && other.trial.number != row.trial.number && has_ended(other) &&
        path_exists(folder_of(other.trial.number) + "/run") &&
        settings_of(other.trial.values) == settings_of(row.trial.values))
      return other;
  return std::nullopt;
}

void Board::record(Claim& claim) {
  const FileLock lock = wait_for_lock();
  if (claim.task.trial.state != search::TrialState::running)
    for (const BoardTrial& row : trials())
      claim.task.trial.ended = std::max(claim.task.trial.ended, row.trial.ended + 1);
  write(claim.task);
}

bool Board::done(const std::set<int64_t>& put_off) const {
  const FileLock lock = wait_for_lock();
  const auto all = trials();
  return (int64_t(all.size()) >= request_.trials || !put_off.empty()) &&
         std::ranges::none_of(all, [&](const BoardTrial& row) {
           return row.trial.state == search::TrialState::running &&
                  !put_off.contains(row.trial.number);
         });
}

bool Board::trains_elsewhere() const {
  const FileLock lock = wait_for_lock();
  return std::ranges::any_of(trials(), [&](const BoardTrial& row) {
    return row.trial.state == search::TrialState::running &&
           !left_behind(folder_of(row.trial.number));
  });
}

std::vector<std::string> Board::settings_of(const search::Values& values) const {
  std::vector<std::string> words;
  for (size_t d = 0; d < values.size(); ++d) {
    const search::Dimension& dimension = request_.space.dimensions()[d];
    words.push_back(dimension.name + "=" + dimension.text(values[d]));
  }
  return words;
}

}  // namespace maglev::verbs::sweep
