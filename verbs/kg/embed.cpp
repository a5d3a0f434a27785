// maglev kg embed: trains an embedding of a graph, which `maglev rank` compares and joins proofs
// with, and says how well it ranks by itself.

#include <cstdio>
#include <optional>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/core/thread_pool.h"
#include "base/datalog/graph.h"
#include "base/statistics/ranking.h"
#include "engine/embeddings/complex.h"
#include "engine/host/machine.h"
#include "engine/train/signals.h"
#include "verbs/kg/part.h"
#include "verbs/status_line.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::kg {
namespace {

using datalog::Atom;

constexpr double kBetweenLines_s = 5;

/// Filtered ranks of queries among all constants, of both arguments; ties by their mean.
RankFigures ranked(const ComplexEmbedding& model, const datalog::Graph& graph,
                   const std::vector<Atom>& queries, ThreadPool& pool) {
  std::vector<double> ranks(2 * queries.size());
  pool.run(std::ssize(ranks), [&](int64_t i) {
    const Atom& query = queries[size_t(i / 2)];
    const bool head = i % 2 == 0;
    const auto one = [](int32_t id) { return at::full({1}, int64_t(id), at::kLong); };
    const at::Tensor scores = head ? model.firsts(one(query.predicate), one(query.second))
                                   : model.seconds(one(query.predicate), one(query.first));
    const float* of = scores.const_data_ptr<float>();
    std::vector<double> candidates{double(of[(head ? query.first : query.second) - 1])};
    for (int32_t c = 1; c <= graph.knowledge->constants; ++c) {
      Atom other = query;
      (head ? other.first : other.second) = c;
      if (graph.truths->find(other) < 0) candidates.push_back(double(of[c - 1]));
    }
    ranks[size_t(i)] = rank_of(candidates, Ties::realistic);
  });
  return rank_figures(ranks);
}

int embed(const Arguments& arguments) {
  const auto file = arguments.output("--out");
  if (!file) throw Error("[kg embed] --out FILE is missing: where the vectors go");
  std::vector<std::string> other = arguments.settings();
  const auto threads = take_threads(other);
  if (!other.empty())
    throw Error("[kg embed] did not expect '" + other[0] + "'; of settings there is threads=N");
  ComplexOptions options;
  options.dim = arguments.integer("--dim", 1, 4096).value_or(options.dim);
  options.epochs = arguments.integer("--epochs", 1, 100'000).value_or(options.epochs);
  options.batch = arguments.integer("--batch", 1, 1 << 20).value_or(options.batch);
  options.lr = arguments.number_above("--lr", 0, 1e6).value_or(options.lr);
  options.n3 = arguments.number("--n3", 0, 1e6).value_or(options.n3);
  options.seed = uint64_t(arguments.integer("--seed", 0, int64_t(1) << 53).value_or(0));

  claim_threads();
  ThreadPool pool(place("cpu", threads.value_or(0)).threads, [] { at::set_num_threads(1); });
  const datalog::Graph& graph = datalog::open_graph(arguments.positional()[0]);
  const datalog::Dataset& data = graph.dataset;
  double told = steady_s();
  const double begin = told;
  CountLine line("questions");
  std::optional<SignalGuard> guard(std::in_place);  // what was learned until a signal is kept
  int64_t learned = 0, questions = 0;
  const auto tell = [&](const std::string& text) {
    told = steady_s();
    line.clear();
    print(text + "\n");
    std::fflush(stdout);
  };
  const ComplexEmbedding model = ComplexEmbedding::train(
      data.train, graph.knowledge->constants, graph.knowledge->predicates, options, pool,
      [&](int64_t epoch, double loss) {
        if (epoch + 1 < options.epochs && steady_s() - told < kBetweenLines_s) return;
        tell(printed("epoch %ld of %ld  loss %.4f  %.1f s", long(epoch + 1), long(options.epochs),
                     loss, steady_s() - begin));
      },
      [&](int64_t count, int64_t of) {
        learned = count, questions = of;
        line.show(count, of);
        // of an epoch that takes long
        if (steady_s() - told >= 2 * kBetweenLines_s)
          tell(count_line("questions", count, of, steady_s() - begin));
        return !SignalGuard::leave();
      });
  line.clear();
  model.save(*file, data.program);
  if (learned < questions) {
    std::fprintf(stderr, "maglev: ended by a signal after %ld of %s; vectors in %s\n",
                 long(learned), counted(questions, "question").c_str(), file->c_str());
    return train::kStopped;
  }
  guard.reset();

  if (data.valid.empty() && data.test.empty()) {
    std::printf("%s has no valid or test queries to rank; vectors in %s\n", data.name.c_str(),
                file->c_str());
    return 0;
  }
  Table table({"split", ">queries", ">MRR", ">Hits@1", ">@3", ">@10"});
  for (const auto& [name, queries] :
       {std::pair("valid", &data.valid), std::pair("test", &data.test)}) {
    if (queries->empty()) continue;
    const RankFigures f = ranked(model, graph, *queries, pool);
    const auto text = [](double x) { return printed("%.3f", x); };
    table.add({name, std::to_string(queries->size()), text(f.mrr), text(f.hits1), text(f.hits3),
               text(f.hits10)});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  std::printf("ranks among all constants, filtered, both arguments; vectors in %s\n",
              file->c_str());
  return 0;
}

}  // namespace

Part embed_part() {
  return {{"kg embed", "train an embedding (ComplEx) that ranks triples, for maglev rank",
           "kg embed <data> --out FILE [--dim N] [--epochs N] [threads=N] ...", nullptr},
          {.flags = {{"--out", "FILE", "a safetensors file"},
                     {"--dim", "N", "complex numbers a constant (default 50)"},
                     {"--epochs", "N", "passes over the training triples (default 50)"},
                     {"--batch", "N", "questions a step (default 512)"},
                     {"--lr", "X", "step size of Adagrad (default 0.1)"},
                     {"--n3", "X", "weight of the nuclear 3-norm (default 0.005)"},
                     {"--seed", "S", "of first weights and order (default 0)"},
                     {"--overwrite", "", "FILE is replaced where it is there already"}},
           .least = 1,
           .most = 1,
           .names = "<data>",
           .settings = true},
          embed};
}

}  // namespace maglev::verbs::kg
