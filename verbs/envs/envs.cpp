// maglev envs: the environments of this build, what they show and take, and their settings.

#include <cstdio>
#include <unistd.h>

#include "base/config/options.h"
#include "base/core/printed.h"
#include "base/core/words.h"
#include "base/env/entry.h"
#include "base/env/env_params.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::envs {

VerbEntry entry();

namespace {

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::f32:
      return "f32";
  }
  return "?";
}

template <class Numbers>
std::string joined(const Numbers& numbers) {
  std::string text;
  for (auto number : numbers) text += (text.empty() ? "" : ", ") + printed("%g", double(number));
  return text;
}

// "vector f32[4]"
std::string column_text(const ObsColumn& column) {
  return column.name + " " + dtype_name(column.dtype) + "[" + joined(column.shape) + "]";
}

// the same, with what cell codes stand for and who may look
std::string full_column_text(const ObsColumn& column) {
  std::string text = column_text(column);
  if (column.cells.bits > 0)
    text += ", [" + joined(column.cells.grid) + "] cells of " + counted(column.cells.bits, "bit") +
            ", seen as " + counted(column.cells.channels, "channel");
  if (column.audience == Audience::critic) text += ", for the critic only";
  return text;
}

std::string observations_text(const EnvSpec& spec) {
  std::string text;
  for (const ObsColumn& column : spec.observations)
    text += (text.empty() ? "" : ", ") + column_text(column);
  return text;
}

std::string actions_text(const ActionSpec& action) {
  if (action.discrete()) {
    const std::string heads = action.heads.size() == 1 ? counted(action.heads[0], "choice")
                                                       : "choices [" + joined(action.heads) + "]";
    return heads + (action.masked ? ", masked" : "");
  }
  bool same = true;
  for (size_t i = 0; i < action.low.size(); ++i)
    same = same && action.low[i] == action.low[0] && action.high[i] == action.high[0];
  const std::string dims = counted(action.dims(), "number");
  if (same) return dims + " in [" + joined(std::vector<float>{action.low[0], action.high[0]}) + "]";
  return dims + " from [" + joined(action.low) + "] to [" + joined(action.high) + "]";
}

// what stands below a heading of print_one
const std::string kIndent(15, ' ');

// "0 up left, 1 left", in as many lines as they take
std::string action_names_text(const ActionSpec& action) {
  constexpr size_t kWidth = 78;
  std::string text;
  for (int64_t head = 0; head < action.dims(); ++head) {
    std::string line = action.dims() > 1 ? "choice " + std::to_string(head) + ":" : "";
    const int64_t n = action.heads[size_t(head)];
    for (int64_t k = 0; k < n; ++k) {
      const std::string word =
          std::to_string(k) + " " + action.name(head, k) + (k + 1 < n ? "," : "");
      if (line.size() + word.size() > kWidth) text += kIndent + line + "\n", line.clear();
      line += (line.empty() ? "" : " ") + word;
    }
    text += kIndent + line + "\n";
  }
  return text;
}

// "efficiency: food / (food + poison)"
std::string share_text(const EventShare& share, const EnvSpec& spec) {
  std::vector<std::string> of;
  for (int32_t k : share.of) of.push_back(spec.events[size_t(k)]);
  return share.name + ": " + spec.events[size_t(share.event)] + " / " +
         (of.size() > 1 ? "(" + maglev::joined(of, " + ") + ")" : of[0]);
}

std::string limit_text(const EnvSpec& spec) {
  return spec.max_steps > 0 ? std::to_string(spec.max_steps) : "none";
}
std::string solved_text(const EnvSpec& spec) {
  return spec.solved_at != 0 ? joined(std::vector<double>{spec.solved_at}) : "-";
}

void print_all() {
  std::string gone;
  Table table({"name", "observations", "actions", ">limit", ">solved at", "what it is"});
  for (const EnvEntry& entry : env_table()) {
    // a library that was there when this was built may be gone
    EnvSpec spec;
    try {
      spec = entry.spec(EnvParams(entry, {}).get());
    } catch (const Error& error) {
      gone += "\n" + std::string(entry.name) + " cannot be had: " + error.what();
      table.add({entry.name, "-", "-", "-", "-", entry.summary});
      continue;
    }
    table.add({entry.name, observations_text(spec), actions_text(spec.action), limit_text(spec),
               solved_text(spec), entry.summary});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  for (const LeftOutEnv& env : left_out_envs())
    print("\n" + std::string(env.name) + " is not in this build, which found no " + env.missing +
          "; " + env.install);
  print(gone + "\nmaglev envs <name> shows the settings of one.\n");
}

// as it is with `settings`
void print_one(const EnvEntry& entry, const std::vector<std::string>& settings) {
  const EnvParams params(entry, settings);
  const EnvSpec spec = entry.spec(params.get());
  std::string text = std::string(entry.name) + ": " + entry.summary + "\n\n";
  for (const ObsColumn& column : spec.observations)
    text += "  observation  " + full_column_text(column) + "\n";
  text += "  actions      " + actions_text(spec.action) + "\n";
  if (!spec.action.names.empty()) text += action_names_text(spec.action);
  text += "  agents       " + std::to_string(spec.agents) +
          (spec.ends_apart ? ", which may end apart" : "") + "\n";
  text += "  limit        " + limit_text(spec) + (spec.max_steps > 0 ? " steps" : "") + "\n";
  text += "  solved at    " +
          (spec.solved_at != 0 ? "mean return " + solved_text(spec) : std::string("-")) + "\n";
  for (const std::string& event : spec.events) text += "  event        " + event + "\n";
  for (const EventShare& share : spec.shares)
    text += "  share        " + share_text(share, spec) + "\n";
  for (const Bot& bot : entry.bots)
    text += std::string("  player       ") + bot.name + ": " + bot.summary + "\n";
  if (const size_t bytes = entry.asset_bytes(params.get()))
    text += "  assets       " + std::to_string(bytes) + " bytes that all environments share\n";
  text += std::string("  runs on      CPU threads") +
          (entry.host_only   ? ", also beside a network on CUDA"
           : entry.step_cuda ? ", CUDA"
                             : "") +
          "\n";
  const std::string help = params.table().help();
  text += help.empty() ? "\nIt has no settings.\n"
                       : "\nsettings, as name=value of maglev train:\n\n" + help;
  print(text);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words,
                            {.most = 1, .names = "<environment>", .settings = true});
  if (arguments.help()) return arguments.print_help();
  if (!arguments.positional().empty())
    print_one(find_env(arguments.positional()[0]), arguments.settings());
  else if (arguments.settings().empty()) print_all();
  else
    throw Error("[envs] settings are an environment's: maglev envs <environment> " +
                arguments.settings()[0]);
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "envs",
          .summary = "environments of this build",
          .usage = "envs [<environment> [env.name=value ...]]",
          .run = run};
}

}  // namespace maglev::verbs::envs
