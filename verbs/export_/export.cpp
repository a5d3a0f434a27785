// maglev export: a run's policy as an ONNX model, compared on request with what the policy does.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <spawn.h>
#include <unistd.h>
#include <variant>

#include <sys/wait.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/core/version.h"
#include "base/core/words.h"
#include "base/env/env_params.h"
#include "base/onnx/model.h"
#include "engine/export/policy_model.h"
#include "engine/export/quantize.h"
#include "engine/export/samples.h"
#include "engine/host/system.h"
#include "engine/play/evaluate.h"
#include "engine/play/player.h"
#include "engine/play/run_policy.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "verbs/arguments.h"
#include "verbs/notes.h"
#include "verbs/table.h"
#include "verbs/verb.h"

extern char** environ;

namespace maglev::verbs::export_ {

VerbEntry entry();

namespace {

Grammar grammar() {
  return {.flags =
              {{"--onnx", "FILE",
                "the model (default: policy.onnx in the run's folder, policy_int8.onnx where "
                "it is in 8 bits)"},
               {"--int8", "",
                "large products in 8 bits: hidden layers of some hundred units or more take a "
                "quarter of the file and less time; what comes out is a little off, and "
                "--check says how far and how well it plays"},
               {"--samples", "FILE",
                "write what the policy saw and did in at least 10,240 steps of its environment, as "
                ".safetensors"},
               {"--check", "",
                "run the model by onnxruntime on such samples and say how far it is from what "
                "the policy did; exit status 1 where it is too far"},
               {"--overwrite", "", "replace FILE where it is there already"}},
          .least = 1,
          .most = 1,
          .names = "<run>",
          .settings = true};
}

// a missing runtime and another policy, as check.py says them
constexpr int kNoRuntime = 3, kAnotherPolicy = 1;

// by which a model in 8 bits is judged, as check_int8.py has it play
constexpr int64_t kJudgedEpisodes = 100;

template <class Number>
std::string by_commas(const std::vector<Number>& numbers) {
  std::string text;
  for (Number x : numbers) text += (text.empty() ? "" : ",") + printed("%.9g", double(x));
  return text;
}

void describe(const RunPolicy& run, onnx::Model& model) {
  const Experiment& trained = run.experiment();
  const std::string algo = trained.algo().name, env = trained.env().name;
  model.description = algo + " on " + env + ", exported by maglev " + kEngineVersion;
  model.metadata = {{"algorithm", algo},
                    {"environment", env},
                    {"step", std::to_string(run.identity().step)},
                    {"maglev_version", kEngineVersion}};
  const ActionSpec action = trained.spec().action;
  if (action.discrete()) {
    std::string heads;
    for (int64_t head : action.heads) heads += (heads.empty() ? "" : ",") + std::to_string(head);
    model.metadata.push_back({"action_categories", heads});
  } else {
    model.metadata.push_back({"action_low", by_commas(action.low)});
    model.metadata.push_back({"action_high", by_commas(action.high)});
  }
  // such as the id of one of Gymnasium's
  for (const std::string& setting : env_settings(trained.table())) {
    const size_t equals = setting.find('=');
    model.metadata.push_back({setting.substr(0, equals), setting.substr(equals + 1)});
  }
  if (trained.algo().exported.amplifies) model.metadata.push_back({"rounding", "amplified"});
  if (*trained.algo().exported.note)
    model.metadata.push_back({"note", trained.algo().exported.note});
}

// what of a model's products stays in f32, by reason: "2 are smaller, 1 takes observations"
std::string left_in_f32(const Quantized& made) {
  std::vector<std::string> reasons;
  const auto add = [&](int64_t count, const char* one, const char* more) {
    if (count > 0) reasons.push_back(std::to_string(count) + (count == 1 ? one : more));
  };
  add(made.small, " is smaller", " are smaller");
  add(made.first, " takes observations", " take observations");
  add(made.last, " gives what comes out", " give what comes out");
  return joined(reasons);
}

// what became of a model's products by constant weights, and of its convolutions
std::string int8_line(const Quantized& made, const onnx::Model& model) {
  const int64_t in_f32 = made.small + made.first + made.last;
  const double share = double(made.weights) / double(made.weights + made.f32_weights);
  std::string line =
      printed("8 bits: %ld of %s, with %.0f %% of their weights", long(made.products),
              counted(made.products + in_f32, "product").c_str(), 100 * share);
  if (in_f32 > 0) line += "; of those in f32 " + left_in_f32(made);
  if (std::ranges::any_of(model.nodes, [](const auto& node) { return node.operation == "Conv"; }))
    line += "; convolutions are in f32";
  return line + "\n";
}

// large products in 8 bits; throws Error where there is none that gains by it
Quantized put_in_int8(onnx::Model& model, const EnvSpec& spec) {
  std::vector<std::string> measured;
  for (const ObsColumn& column : spec.observations)
    if (column.dtype == DType::f32) measured.push_back(column.name);
  const Quantized made = quantize(model, measured);
  if (made.products == 0)
    throw Error("[export] --int8 gains nothing here: it puts products of at least " +
                std::to_string(kLeastQuantizedWeights) + " weights (128 x 128) in 8 bits, and of " +
                counted(made.small + made.first + made.last, "product") + " " + left_in_f32(made) +
                "; leave out --int8");
  model.metadata.push_back({"precision", "int8"});
  return made;
}

std::string shape_text(const onnx::Port& port) {
  std::string text;
  for (const auto& size : port.shape) {
    const auto* number = std::get_if<int64_t>(&size);
    text += (text.empty() ? "" : ", ") +
            (number ? std::to_string(*number) : std::get<std::string>(size));
  }
  return "[" + text + "]";
}

std::string table_of(const onnx::Model& model) {
  Table table({"", "name", "type", "shape"});
  for (const auto& [side, ports] : {std::pair{"input", &model.inputs}, {"output", &model.outputs}})
    for (const onnx::Port& port : *ports)
      table.add({side, port.name, onnx::type_name(port.type), shape_text(port)});
  return table.text(probe_terminal(STDOUT_FILENO));
}

// a program's exit status; its output goes where ours does
int status_of(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::fflush(stdout);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
  if (failed != 0)
    throw Error("[export] " + words[0] + " cannot be started: " + std::strerror(failed) +
                "; MAGLEV_ONNX_PYTHON names another Python");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status))
    throw Error("[export] " + words[0] + " ended by signal " + std::to_string(WTERMSIG(status)));
  return WEXITSTATUS(status);
}

// that of an installed engine, or the set-up's own where there is one, into which packages can be
// installed
std::string default_python() {
  if (const std::string python = installed_python(); !python.empty()) return python;
  const std::string own = home_folder() + "/.venv/bin/python3";
  return path_exists(own) ? own : "python3";
}

// in mode mean, of the seeds that `eval` has, by commas
std::string own_returns(RunPolicy& run) {
  PolicyPlayer player(run.policy(), run.experiment().algo().name, ActMode::mean);
  const Game game = game_of(run.experiment(), run.placement(), run.pool());
  return by_commas(evaluate(player, game, {.episodes = kJudgedEpisodes}).returns);
}

// `given`: what check.py takes; nothing: whether it can run is all that is asked
int check(const std::vector<std::string>& given) {
  const char* named = std::getenv("MAGLEV_ONNX_PYTHON");
  const std::string python = named ? named : default_python();
  std::vector<std::string> words{python, home_folder() + "/verbs/export_/check.py"};
  words.insert(words.end(), given.begin(), given.end());
  const int status = status_of(words);
  if (status == kNoRuntime)
    throw Error("[export] --check runs the model by onnxruntime, which " + python +
                " does not have: " + python +
                " -m pip install onnxruntime numpy; MAGLEV_ONNX_PYTHON names another Python");
  if (status != 0 && (status != kAnotherPolicy || given.empty()))
    throw Error("[export] the check broke off, what it said stands above");
  return status;
}

// where what is written as `name` comes to lie: behind links, which stay, also where nothing is
// there yet. Throws Error.
std::string behind_links(const std::string& name) {
  constexpr int kMostLinks = 40;  // as many as the system follows
  std::filesystem::path path = name;
  for (int link = 0; link < kMostLinks; ++link) {
    const std::string to = read_link(path.string());
    if (to.empty()) return path.string();
    path = path.parent_path() / to;
  }
  throw Error("[export] " + name + " is a link that leads round to itself; name another file");
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  const auto whole = [&](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(name), error);
  };
  return whole(a) == whole(b) || std::filesystem::equivalent(a, b, error);
}

// where the model goes, and samples where they were asked for
struct Files {
  std::string model;
  std::optional<std::string> samples;
};

// throws Error where one may not be written
Files files_of(const Arguments& arguments, const std::string& folder) {
  Files files{.model = arguments.output("--onnx").value_or(""),
              .samples = arguments.output("--samples")};
  std::string& model = files.model;
  if (!model.empty() && !model.ends_with(".onnx"))
    throw Error("[export] --onnx writes ONNX, into a name that ends in .onnx, got " + model);
  if (model.empty()) {
    model = folder + (arguments.has("--int8") ? "/policy_int8.onnx" : "/policy.onnx");
    if (path_exists(model) && !arguments.has("--overwrite"))
      throw Error("[export] " + model +
                  " is there already; name another by --onnx, or replace it by --overwrite");
  }
  model = behind_links(model);
  if (files.samples) files.samples = behind_links(*files.samples);
  if (files.samples && same_file(model, *files.samples))
    throw Error("[export] --samples would replace the model, which goes to " + model +
                "; name another file for the samples, e.g. samples.safetensors");
  return files;
}

// samples of what the policy does, as a file that is kept where it was asked for; what the model
// makes of them, where --check was given
int sample(RunPolicy& run, const Files& files, bool checks, bool int8) {
  if (!files.samples && !checks) return 0;
  const std::string file =
      files.samples
          ? *files.samples
          : temporary_beside((std::filesystem::temp_directory_path() / "samples").string());
  struct Removed {
    ~Removed() {
      if (!path.empty()) std::filesystem::remove(path, error);
    }
    std::string path;
    std::error_code error = {};
  } removed{files.samples ? "" : file};
  write_samples(file, policy_samples(run.policy(), run.experiment(), run.placement(), run.pool()));
  if (files.samples) std::printf("samples written to %s\n", file.c_str());
  if (!checks) return 0;
  std::vector<std::string> given{files.model, file};
  if (int8) given.push_back(own_returns(run));
  return check(given);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  for (const std::string& setting : arguments.settings())
    if (!setting.starts_with("env."))
      throw Error("[export] only env.* settings may differ from training, got '" + setting + "'");
  const std::string& name = arguments.positional()[0];
  const auto named = run_named(name);
  if (!named) throw no_run(name);
  // a checkpoint that is not there comes before a model that is
  if (named->checkpoint != "latest") checkpoint_of(named->folder, named->checkpoint);
  const Files files = files_of(arguments, named->folder);
  // before anything is written, so that the same command may be given again
  if (arguments.has("--check")) check({});

  // as it acts where a model of it is all there is: on a processor, in f32
  const auto trained = experiment_of(named->folder);
  std::vector<std::string> settings = file_settings(trained->env(), trained->env_params());
  for (const auto* more : {&arguments.settings(), &trained->algo().exported.settings})
    settings.insert(settings.end(), more->begin(), more->end());
  print_notes(run_notes(name, arguments.settings()));
  RunPolicy run(named->folder, named->checkpoint, settings, "cpu");
  expect_same_columns(*trained, named->folder, run.experiment().spec(), arguments.settings());

  onnx::Model model = policy_model(run.policy(), run.experiment().spec());
  describe(run, model);
  std::optional<Quantized> int8;
  if (arguments.has("--int8")) int8 = put_in_int8(model, run.experiment().spec());
  const std::string bytes = onnx::to_bytes(model);
  write_atomic(files.model, bytes);

  std::printf("%s on %s, step %ld, %s\n", trained->algo().name, trained->env().name,
              long(run.identity().step), run.checkpoint().c_str());
  print(table_of(model));
  std::printf("written to %s: %s, %zu operations, opset %ld\n", files.model.c_str(),
              bytes_text(int64_t(bytes.size())).c_str(), model.nodes.size(), long(model.opset));
  if (int8) print(int8_line(*int8, model));
  const auto precision = trained->run.precision;
  if (precision && *precision != Precision::fp32)
    std::printf("note: trained in %s; the model has the weights in fp32 and computes so%s\n",
                name_of(*precision), int8 ? ", but for products in 8 bits" : "");
  if (*trained->algo().exported.note) std::printf("note: %s\n", trained->algo().exported.note);
  return sample(run, files, arguments.has("--check"), int8.has_value());
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "export",
      .summary = "a run's policy as an ONNX model, its normalisers inside",
      .usage =
          "export <run> [--onnx FILE] [--int8] [--check] [--samples FILE] [env.setting=value ...]\n"
          "  <run> is a run's folder, or FOLDER@CHECKPOINT",
      .run = run};
}

}  // namespace maglev::verbs::export_
