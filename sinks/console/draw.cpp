#include "sinks/console/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/shell_word.h"

namespace maglev::sinks::console {
namespace {

constexpr int kLabel = 11;  // columns of the row's name, margin included
constexpr int kWide = 100;  // from here on the chart stands beside the figures
constexpr int kCell = 22;   // columns of one figure in a grid
// rows of the chart beside the figures: what a high terminal leaves free, within bounds
constexpr int kFigures = 3, kLeastChart = 4, kMostChart = 14, kBesideChart = 34;
constexpr size_t kLossLines = 3;  // the first lines of the losses that stay while others go

struct Phase {
  const char* name;
  const char* brief;
  Ink ink;
  const char* shade;  // where there is no colour
  char letter;        // where there is no unicode
};
constexpr std::array<Phase, 5> kPhases{{{"environment", "env", Ink::green, "█", 'E'},
                                        {"policy", "policy", Ink::blue, "▓", 'P'},
                                        {"learn", "learn", Ink::magenta, "▒", 'L'},
                                        {"copy", "copy", Ink::yellow, "░", 'C'},
                                        {"other", "other", Ink::dim, "·", '.'}}};

// a line, and how soon it goes when the terminal is too low: the highest first
struct Ranked {
  Line line;
  int rank;
};
enum Rank {
  bar,
  status,
  mean_return,
  phases,
  losses,
  episodes,
  events,
  bound,
  gpu,
  history,
  space,
  more_losses
};

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string percent(double share) { return printed("%.1f%%", 100 * share); }

std::string whole_percent(double share) {
  if (std::isnan(share)) return "-";
  return std::to_string(std::lround(100 * share)) + "%";
}

// short runs to a tenth of a second
std::string took_text(double seconds) {
  if (!(seconds < 60)) return duration_text(seconds);
  return printed("%.1f s", seconds);
}

Line labelled(const char* label) {
  Line line;
  line.add(" ").add(label, Ink::dim).pad_to(kLabel);
  return line;
}

// what finds no room is left out as a whole: a figure that is cut is another figure
void add_where_it_fits(Line& line, const Line& part, int columns) {
  if (line.width() + part.width() <= columns) line.add(part);
}

Line progress_line(const View& view, const Terminal& terminal) {
  const std::string text = percent(view.share());
  const int width = std::max(4, terminal.columns - 4 - 6);
  const double filled = view.share() * width;
  Line line;
  line.add(" ");
  if (terminal.unicode) {
    const int full = int(filled);
    const bool half = filled - full >= 0.5 && full < width;
    line.add(repeat("━", full) + (half ? "╸" : ""), Ink::cyan);
    line.add(repeat(terminal.colour ? "━" : "─", width - full - half), Ink::dim);
  } else {
    const int full = std::min(width - 1, int(filled));
    line.add(view.share() >= 1 ? repeat("=", width) : repeat("=", full) + ">", Ink::cyan);
    if (view.share() < 1) line.add(repeat("-", width - full - 1), Ink::dim);
  }
  line.pad_to(1 + width + 1 + std::max(0, 6 - int(text.size())));
  return line.add(" ").add(text, Ink::bold);
}

// what the iteration is doing, where it takes long enough to be read
std::string doing(const View& view) {
  if (view.seeding()) return "collecting before it learns";
  if (view.updates_left > 1 && view.since_row_s() >= 2)
    return "learning, " + count_text(double(view.updates_left)) + " updates left";
  if (!view.ticked || view.iteration_s < 2) return "";
  if (view.iteration_share >= 1) return "learning";
  return "collecting " + whole_percent(view.iteration_share);
}

Line status_line(const View& view, const Terminal& terminal) {
  static constexpr std::array<const char*, 10> kSpin{"⠋", "⠙", "⠹", "⠸", "⠼",
                                                     "⠴", "⠦", "⠧", "⠇", "⠏"};
  static constexpr std::array<const char*, 4> kAsciiSpin{"|", "/", "-", "\\"};
  const bool over = view.total_steps > 0 && view.step >= view.total_steps;
  Line line;
  line.add(" ");
  if (over) line.add(terminal.unicode ? "✓" : "*", Ink::green);
  else
    line.add(terminal.unicode ? kSpin[size_t(view.beats) % kSpin.size()]
                              : kAsciiSpin[size_t(view.beats) % kAsciiSpin.size()],
             Ink::cyan);
  line.add(" ").add(count_text(double(view.step)), Ink::bold);
  line.add(" of " + count_text(double(view.total_steps)) + " steps");
  const bool brief = terminal.columns < 64;
  const std::string gap = brief ? "  " : "    ";
  Line speed, elapsed, left, now;
  speed.add(gap).add(count_text(view.steps_per_second), Ink::bold).add(brief ? "/s" : " steps/s");
  elapsed.add(gap).add(brief ? "" : "elapsed ", Ink::dim).add(duration_text(view.elapsed_s));
  if (!over)
    left.add(gap).add(brief ? "eta " : "left ", Ink::dim).add(duration_text(view.left_s()));
  if (const std::string words = doing(view); !words.empty()) now.add(gap).add(words, Ink::dim);
  add_where_it_fits(line, speed, terminal.columns);
  // how long it will take is worth more than how long it took
  add_where_it_fits(line, elapsed, terminal.columns - left.width());
  add_where_it_fits(line, left, terminal.columns);
  add_where_it_fits(line, now, terminal.columns);
  return line;
}

// `behind` stands at its end
Line return_line(const View& view, const Line& behind, int columns) {
  Line line = labelled("return").add(figure_text(view.row.return_mean), Ink::bold);
  line.pad_to(kLabel + 10);
  // the mean is of a hundred episodes or more, the range of those since the row before
  const double low = view.figure("episode/return_min"), high = view.figure("episode/return_max");
  Line range;
  if (std::isfinite(low))
    range.add("newest from ", Ink::dim)
        .add(figure_text(low))
        .add(" to ", Ink::dim)
        .add(figure_text(high));
  add_where_it_fits(line, range, columns - behind.width());
  add_where_it_fits(line, behind, columns);
  return line;
}

Line best_line(const View& view) {
  Line line = labelled("best").add(figure_text(view.best_return));
  line.pad_to(kLabel + 10);
  if (std::isfinite(view.best_return))
    line.add("at ", Ink::dim).add(count_text(double(view.best_step)) + " steps");
  return line;
}

// what evaluations gave; empty where there was none
Line evaluation_line(const View& view, int columns) {
  Line line, when, best;
  if (!std::isfinite(view.evaluated)) return line;
  line = labelled("evaluated").add(figure_text(view.evaluated), Ink::bold);
  line.pad_to(kLabel + 10);
  when.add("at ", Ink::dim).add(count_text(double(view.evaluated_step)) + " steps");
  best.add("   best ", Ink::dim).add(figure_text(view.best_evaluated));
  add_where_it_fits(line, when, columns);
  add_where_it_fits(line, best, columns);
  return line;
}

Line episodes_line(const View& view, int columns) {
  Line line = labelled("episodes").add(count_text(double(view.row.episodes)));
  line.pad_to(kLabel + 10);
  const double length = view.figure("episode/length_mean");
  Line lasted;
  if (std::isfinite(length)) lasted.add("length ", Ink::dim).add(figure_text(length) + " steps");
  add_where_it_fits(line, lasted, columns);
  return line;
}

struct Item {
  std::string name;
  double value;
  bool share = false;

  std::string text() const {
    return share && std::isfinite(value) ? percent(value) : figure_text(value);
  }
};

std::string readable(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  // a long word that many figures have
  if (text.ends_with(" variance")) text.resize(text.size() - 5);
  return text;
}

// the figures an algorithm reports, in the order in which it declared them
std::vector<Item> loss_items(const View& view) {
  constexpr std::string_view prefix = "loss/";
  std::vector<Item> items;
  for (const auto& [name, value] : view.row.values)
    if (name.starts_with(prefix))
      items.push_back({readable(std::string_view(name).substr(prefix.size())), value});
  return items;
}

// smoothed, or those since the last line
std::vector<Item> event_items(const View& view, bool since_line) {
  std::vector<Item> items;
  constexpr std::string_view prefix = "events/", suffix = "_per_1k";
  for (const auto& [name, value] : view.row.values) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    std::string_view middle = std::string_view(name).substr(prefix.size());
    middle.remove_suffix(suffix.size());
    items.push_back({readable(middle), since_line ? view.since_line(name) : value});
  }
  return items;
}

// of the last row that has one: means of shares would be no shares
std::vector<Item> share_items(const View& view) {
  constexpr std::string_view prefix = "share/";
  std::vector<Item> items;
  for (const auto& [name, value] : view.row.values)
    if (name.starts_with(prefix))
      items.push_back({readable(std::string_view(name).substr(prefix.size())), value, true});
  return items;
}

// name left, value right, in columns of one width
std::vector<Line> grid(const char* label, const std::vector<Item>& items, int columns) {
  const int per_line = std::max(1, (columns - kLabel + 3) / (kCell + 3));
  // the name is cut, its figure is not
  const int cell = std::clamp(columns - kLabel, 1, kCell);
  std::vector<Line> lines;
  for (size_t i = 0; i < items.size(); ++i) {
    const int place = int(i) % per_line;
    if (place == 0) lines.push_back(labelled(lines.empty() ? label : ""));
    const std::string value = items[i].text();
    Line& line = lines.back();
    line.pad_to(kLabel + place * (kCell + 3));
    line.add(fit(items[i].name, std::max(0, cell - 1 - int(value.size())), true), Ink::dim);
    line.pad_to(kLabel + place * (kCell + 3) + cell - int(value.size())).add(value);
  }
  return lines;
}

std::vector<double> phase_shares(const View& view) {
  std::vector<double> shares;
  double sum = 0;
  for (size_t i = 0; i + 1 < kPhases.size(); ++i) {
    shares.push_back(view.figure(std::string("time/") + kPhases[i].name));
    if (std::isfinite(shares.back())) sum += shares.back();
  }
  shares.push_back(std::max(0.0, 1 - sum));
  return shares;
}

std::string mark_of(const Phase& phase, const Terminal& terminal) {
  if (!terminal.unicode) return std::string(1, phase.letter);
  return terminal.colour ? "█" : phase.shade;
}

// as many lines as it takes
std::vector<Line> legend(const std::vector<double>& shares, const Terminal& terminal, bool brief) {
  std::vector<Line> lines(1);
  for (size_t i = 0; i < kPhases.size(); ++i) {
    const Phase& phase = kPhases[i];
    Line part;
    if (!brief)
      part.add(terminal.unicode && terminal.colour ? "■" : mark_of(phase, terminal), phase.ink)
          .add(" ");
    part.add(brief ? phase.brief : phase.name, brief ? phase.ink : Ink::dim)
        .add(" " + whole_percent(shares[i]));
    const std::string gap = i == 0 ? "" : brief ? " " : "  ";
    if (kLabel + lines.back().width() + int(gap.size()) + part.width() > terminal.columns && i > 0)
      lines.push_back(part);
    else lines.back().add(gap).add(part);
  }
  return lines;
}

// where the time goes: a stacked bar and what its parts are
std::vector<Line> time_lines(const View& view, const Terminal& terminal) {
  const std::vector<double> shares = phase_shares(view);
  std::vector<Line> names = legend(shares, terminal, false);
  if (names.size() > 1) names = legend(shares, terminal, true);
  const int beside = terminal.columns - kLabel - names[0].width() - 3;
  const bool one_line = names.size() == 1 && beside >= 16;
  const std::vector<int> widths =
      apportion(shares, one_line ? beside : std::max(4, terminal.columns - kLabel - 1));
  Line line = labelled("time");
  for (size_t i = 0; i < kPhases.size(); ++i)
    line.add(repeat(mark_of(kPhases[i], terminal), widths[i]), kPhases[i].ink);
  if (one_line) return {line.add("  ").add(names[0])};
  std::vector<Line> lines{line};
  for (const Line& part : names) lines.push_back(labelled("").add(part));
  return lines;
}

// what is known of the GPU
Line gpu_line(const View& view, const Terminal& terminal) {
  Line line = labelled("gpu");
  const std::array<std::pair<const char*, const char*>, 4> units{
      {{"watts", " W"},
       {"celsius", terminal.unicode ? " °C" : " C"},
       {"mhz", " MHz"},
       {"mib", " MiB"}}};
  if (const auto busy = view.gpu.find("busy"); busy != view.gpu.end())
    line.add("busy ", Ink::dim).add(whole_percent(busy->second), Ink::bold).add("    ");
  for (const auto& [name, words] :
       {std::pair{"sm", "multiprocessors "}, {"tensor", "tensor cores "}, {"dram", "memory "}})
    if (const auto share = view.gpu.find(name); share != view.gpu.end())
      line.add(words, Ink::dim).add(whole_percent(share->second)).add("    ");
  for (const auto& [name, unit] : units)
    if (const auto told = view.gpu.find(name); told != view.gpu.end())
      line.add(std::to_string(std::lround(told->second))).add(unit, Ink::dim).add("    ");
  return line;
}

// what the run has cost and, at its present rate, will have cost; nothing where no price is known
std::vector<Line> cost_lines(const View& view, bool over) {
  const double cost = view.figure("machine/cost");
  if (std::isnan(cost)) return {};
  Line line = labelled("cost").add(figure_text(cost), Ink::bold);
  const double whole_s = view.elapsed_s + view.left_s();
  if (!over && view.row.seconds > 0 && std::isfinite(whole_s))
    line.add(" so far, ", Ink::dim)
        .add(figure_text(cost * whole_s / view.row.seconds), Ink::bold)
        .add(" in all", Ink::dim);
  return {line};
}

// advice is read to its end: whole words, below each other behind the label
std::vector<Line> bound_lines(const View& view, const Terminal& terminal) {
  std::vector<Line> lines;
  if (view.bound_by.empty()) return lines;
  for (const std::string& part : wrapped(view.bound_by, std::max(1, terminal.columns - kLabel)))
    lines.push_back((lines.empty() ? labelled("bound by") : Line().pad_to(kLabel)).add(part));
  return lines;
}

std::vector<Ranked> narrow_figures(const View& view, const Terminal& terminal) {
  Line best;
  if (std::isfinite(view.best_return))
    best.add("   best ", Ink::dim).add(figure_text(view.best_return));
  std::vector<Ranked> lines{{return_line(view, best, terminal.columns), mean_return},
                            {episodes_line(view, terminal.columns), episodes}};
  if (std::isfinite(view.evaluated))
    lines.push_back({evaluation_line(view, terminal.columns), mean_return});
  const int width = terminal.columns - kLabel - 1;
  if (view.history.size() >= 2)
    lines.push_back(
        {labelled("history").add(chart(view.history, width, 1, terminal.unicode)[0], Ink::cyan),
         history});
  return lines;
}

// figures on the left, the history of the mean return on the right
std::vector<Ranked> wide_figures(const View& view, const Terminal& terminal) {
  constexpr int kLeft = 52;
  const bool drawn = view.history.size() >= 2;
  std::vector<Ranked> lines{{return_line(view, Line(), kLeft), mean_return},
                            {best_line(view), history},
                            {episodes_line(view, kLeft), episodes}};
  if (std::isfinite(view.evaluated)) lines.push_back({evaluation_line(view, kLeft), mean_return});
  if (!drawn) return lines;
  const int height = std::clamp(terminal.rows - kBesideChart, kLeastChart, kMostChart);
  lines.resize(size_t(height), {Line(), history});
  const auto [low, high] = std::minmax_element(view.history.begin(), view.history.end());
  std::vector<std::string> axis(size_t(height), "");
  axis.front() = figure_text(*high), axis.back() = figure_text(*low);
  const int axis_width = int(std::max(axis.front().size(), axis.back().size()));
  const auto rows =
      chart(view.history, terminal.columns - kLeft - axis_width - 4, height, terminal.unicode);
  for (size_t i = 0; i < lines.size(); ++i)
    lines[i]
        .line.pad_to(kLeft + axis_width - int(axis[i].size()))
        .add(axis[i], Ink::dim)
        .pad_to(kLeft + axis_width)
        .add(terminal.unicode ? " ▏" : " | ", Ink::dim)
        .add(rows[i], Ink::cyan);
  return lines;
}

}  // namespace

std::vector<Line> header_lines(const View& view, const Terminal& terminal) {
  const std::string dot = terminal.unicode ? "  ·  " : "  -  ";
  Line title;
  title.add(" maglev", Ink::bold)
      .add(dot, Ink::dim)
      .add(view.algo, Ink::cyan)
      .add(" on ")
      .add(view.env, Ink::cyan);
  title.add(dot, Ink::dim)
      .add(count_text(double(view.total_steps)) + " steps")
      .add(dot, Ink::dim)
      .add(view.device);
  if (view.resumed_at >= 0)
    title.add(dot, Ink::dim).add("resumed at " + count_text(double(view.resumed_at)), Ink::yellow);
  Line folder;
  folder.add(" " + view.dir, Ink::dim);
  return {title.fitted(terminal.columns, terminal.unicode),
          folder.fitted(terminal.columns, terminal.unicode), Line()};
}

std::vector<Line> live_lines(const View& view, const Terminal& terminal) {
  std::vector<Ranked> all{{progress_line(view, terminal), bar},
                          {status_line(view, terminal), status}};
  if (view.rows > 0) {
    all.push_back({Line(), space});
    for (auto& ranked :
         terminal.columns >= kWide ? wide_figures(view, terminal) : narrow_figures(view, terminal))
      all.push_back(std::move(ranked));
    const auto losses_grid = grid("losses", loss_items(view), terminal.columns);
    if (!losses_grid.empty()) all.push_back({Line(), space});
    for (size_t i = 0; i < losses_grid.size(); ++i)
      all.push_back({losses_grid[i], i < kLossLines ? losses : more_losses});
    for (const Line& line :
         grid("per 1k", event_items(view, /*since_line=*/false), terminal.columns))
      all.push_back({line, events});
    for (const Line& line : grid("shares", share_items(view), terminal.columns))
      all.push_back({line, events});
    all.push_back({Line(), space});
    for (const Line& line : time_lines(view, terminal)) all.push_back({line, phases});
    if (!view.gpu.empty()) all.push_back({gpu_line(view, terminal), gpu});
    for (const Line& line : cost_lines(view, /*over=*/false)) all.push_back({line, gpu});
    for (const Line& line : bound_lines(view, terminal)) all.push_back({line, bound});
  }
  // the line below the region holds the cursor
  const size_t most = size_t(std::max(1, terminal.rows - 1));
  while (all.size() > most) {
    auto last = all.begin();
    for (auto ranked = all.begin(); ranked != all.end(); ++ranked)
      if (ranked->rank >= last->rank) last = ranked;
    all.erase(last);
  }
  std::vector<Line> lines;
  for (const Ranked& ranked : all)
    lines.push_back(ranked.line.fitted(terminal.columns, terminal.unicode));
  return lines;
}

std::string plain_line(const View& view) {
  std::string text;
  const auto pair = [&text](const std::string& name, const std::string& value, size_t width) {
    std::string both = name + "=" + value;
    text += both + std::string(both.size() < width ? width - both.size() : 0, ' ') + " ";
  };
  pair("step", std::to_string(view.step), 5 + std::to_string(view.total_steps).size());
  pair("done", percent(view.share()), 11);
  pair("return", figure_text(view.row.return_mean), 16);
  pair("episodes", std::to_string(view.row.episodes), 15);
  pair("length", figure_text(view.figure("episode/length_mean")), 13);
  pair("steps/s",
       std::isfinite(view.steps_per_second) ? std::to_string(std::llround(view.steps_per_second))
                                            : "-",
       16);
  if (std::isfinite(view.evaluated)) pair("eval", figure_text(view.evaluated), 14);
  if (const auto busy = view.gpu.find("busy"); busy != view.gpu.end())
    pair("gpu", whole_percent(busy->second), 8);
  pair("elapsed", duration_text(view.elapsed_s), 15);
  pair("left", duration_text(view.left_s()), 12);
  for (const Item& item : event_items(view, /*since_line=*/true))
    pair(item.name + "/1k", item.text(), item.name.size() + 11);
  for (const Item& item : share_items(view)) pair(item.name, item.text(), item.name.size() + 8);
  const auto figures = loss_items(view);
  for (size_t i = 0; i < figures.size() && i < 6; ++i) {
    std::string name = figures[i].name;
    std::replace(name.begin(), name.end(), ' ', '_');
    pair(name, figure_text(figures[i].value), name.size() + 10);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<Line> summary_lines(const View& view, const Terminal& terminal,
                                const std::string& outcome) {
  const bool finished = outcome == "finished", stopped = outcome == "stopped",
             failed = !finished && !stopped;
  std::vector<Line> lines{Line()};
  Line head;
  head.add(" ").add(failed ? "failed" : outcome, finished  ? Ink::green
                                                 : stopped ? Ink::yellow
                                                           : Ink::red);
  head.pad_to(kLabel)
      .add(std::to_string(view.step), Ink::bold)
      .add(" steps in " + took_text(view.elapsed_s));
  if (view.elapsed_s > 0)
    head.add(", " + count_text(double(view.step) / view.elapsed_s) + " steps/s");
  lines.push_back(head);
  // on a terminal the error itself stands below
  if (failed && !terminal.live) lines.push_back(labelled("because").add(outcome, Ink::red));
  // as long as it is: it says which setting it was
  if (!view.ended_by.empty()) lines.push_back(labelled("because").add(view.ended_by));
  Line reached = labelled("return").add(figure_text(view.row.return_mean), Ink::bold);
  if (std::isfinite(view.best_return))
    reached.add(", best ")
        .add(figure_text(view.best_return), Ink::bold)
        .add(" at " + count_text(double(view.best_step)) + " steps");
  else if (!view.plays) reached.add(", for it learned from a dataset and played no episode");
  else if (view.row.episodes == 0) reached.add(", for no episode has ended");
  lines.push_back(reached);
  if (std::isfinite(view.evaluated)) lines.push_back(evaluation_line(view, terminal.columns));
  for (const Line& line : cost_lines(view, /*over=*/true)) lines.push_back(line);
  // all of it is there to be read or copied: nothing is cut, the terminal wraps it
  if (!view.bound_by.empty()) lines.push_back(labelled("bound by").add(view.bound_by));
  for (const std::string& warning : view.warnings)
    lines.push_back(labelled("warning").add(warning, Ink::yellow));
  lines.push_back(labelled("run").add(view.dir));
  // what failed before its first step would do so again, and learned nothing to be judged
  if (!view.saved || (failed && view.step == 0)) return lines;
  lines.push_back(labelled("evaluate").add(command_name() + " eval " + shell_word(view.dir)));
  if (!finished)
    lines.push_back(
        labelled("resume").add(command_name() + " train --resume " + shell_word(view.dir)));
  return lines;
}

}  // namespace maglev::sinks::console
