// maglev trace: what recorded traces say.

#include <array>
#include <cstdio>

#include "base/core/error.h"
#include "verbs/trace/words.h"
#include "verbs/verb.h"

namespace maglev::verbs::trace {

VerbEntry entry();

namespace {

struct Word {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
};
constexpr std::array kWords{Word{"analyze", analyze}, Word{"merge", merge}};

int run_word(const std::vector<std::string>& words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::printf(
        "%s\nusage: maglev %s\n`maglev trace analyze --help` and `maglev trace merge --help` list "
        "their flags\n",
        entry().summary, entry().usage);
    return 0;
  }
  std::vector<std::string> known;
  for (const Word& word : kWords) known.push_back(word.name);
  if (words.empty())
    throw Error("[trace] a word was expected: trace analyze FILE, or trace merge FILE FILE -o OUT");
  for (const Word& word : kWords)
    if (words[0] == word.name) return word.run({words.begin() + 1, words.end()});
  throw Error("[trace] " + unknown_name("word", words[0], known));
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "trace",
      .summary = "where a recorded trace's time went, and what to change; several traces as one",
      .usage =
          "trace analyze <file> [--against OLD] [--top N] [--only TEXT] [--json] [--log FILE] | "
          "merge <file> <file> ... -o OUT",
      .run = run_word};
}

}  // namespace maglev::verbs::trace
