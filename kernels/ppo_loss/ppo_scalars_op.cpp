#include "kernels/ppo_loss/ppo_scalars_op.h"

#include <limits>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/advantage/advantage_op.h"

namespace maglev {
namespace {

template <class T>
T* at_start(const at::Tensor& t) {
  return reinterpret_cast<T*>(t.data_ptr());
}

PpoSums sums_of(const at::Tensor& sums, int64_t first) {
  MAGLEV_ASSERT(sums.dim() == 2 && sums.size(0) == 2 && sums.stride(1) == 1, "sums and weights");
  return {at_start<float>(sums) + first, at_start<float>(sums) + sums.stride(0) + first};
}

/// Settings of a case.
struct ScalarSettings {
  PpoNumbers numbers;
  // the entropies there are at most 1: this floor is always missed
  PpoSchedules schedules{.lr = {3e-4, 0.1},
                         .clip = {0.2, 1},
                         .value_clip = {0.3, 0.5},
                         .entropy = {0.01, 0},
                         .entropy_floor = {2, 1},
                         .rows = 1000,
                         .total = 5000};
};

// the same by ATen, into a state of its own
PpoState ppo_scalars_reference(const PpoState& s, const ScalarSettings& settings,
                               const PpoAdvantages& rows, const at::Tensor& lane_figures) {
  const auto& [n, schedules] = settings;
  auto one = [&](double x) { return at::full({}, x, s.clip.options()); };
  PpoState out = s;
  // schedules, as they are where the update begins
  out.steps_done = s.steps_done + double(schedules.rows);
  auto share = s.steps_done / double(schedules.total);
  auto scheduled = [&](const Schedule& x) {
    const auto progress = at::clamp((share - x.from) / (x.until - x.from), 0, 1);
    return (x.start * (1 + (x.end_share - 1) * progress)).to(at::kFloat);
  };
  out.lr = scheduled(schedules.lr), out.clip = scheduled(schedules.clip);
  out.value_clip = scheduled(schedules.value_clip);
  out.entropy_coef = scheduled(schedules.entropy);
  out.entropy_floor = scheduled(schedules.entropy_floor);
  // what the loss reads; below the floor entropy weighs more
  const auto statistics = advantage_statistics_reference(rows.advantage, rows.valid, rows.index);
  auto coef = at::where(s.last_entropy < out.entropy_floor,
                        out.entropy_coef + n.entropy_floor_penalty, out.entropy_coef);
  out.scalars =
      at::stack({n.normalize ? statistics[0] : one(0), n.normalize ? statistics[1] : one(1),
                 statistics[2], out.clip, out.value_clip, coef});
  // figures over the lanes, and whether the policy has gone too far
  out.figures = lane_figures.sum(0).to(at::kFloat);
  const auto empty = statistics[2] == 0;
  out.counts = at::where(at::logical_or(s.stop != 0, empty), one(0), one(1));
  const bool stops = n.target_kl > 0;
  out.stop = stops ? at::logical_or(s.stop != 0, out.figures[kPpoApproxKl] > 1.5 * n.target_kl)
                         .to(at::kFloat)
                   : s.stop;
  out.last_entropy = at::where(empty, s.last_entropy, out.figures[kPpoEntropy]);
  return out;
}

Tensors outputs(const PpoState& s) {
  return {s.steps_done, s.lr,     s.entropy_floor, s.scalars,
          s.figures,    s.counts, s.stop,          s.last_entropy};
}

/// What is reported behind a step and an update.
struct Reported {
  at::Tensor norm;
  PpoUpdateFigures update;
  at::Tensor epochs_done;
};
constexpr int64_t kEpochs = 3, kStepFigures = kPpoFigures + 2;

// sums and weights of both reports side by side
at::Tensor reported_reference(const PpoState& s, const Reported& r) {
  const auto step = at::cat({s.figures, at::stack({r.norm, s.lr})}) * s.counts;
  const auto explained = at::isnan(r.update.explained).logical_not().to(at::kFloat);
  const auto update =
      at::stack({at::nan_to_num(r.update.explained), r.update.nonfinite, r.update.scale});
  return at::stack(
      {at::cat({step, update}), at::cat({s.counts.expand({kStepFigures}), explained.reshape({1}),
                                         at::ones({2}, step.options())})});
}

// a step that counts, of an update that explained something, or one that does not, of one that did
// not: its figures are told as if they were none
KernelCase report_case(bool counts, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(1);
  auto some = [&](std::vector<int64_t> sizes) { return at::rand(sizes, gen).to(device); };
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  PpoState state{};
  state.lr = some({}), state.figures = some({int64_t(kPpoFigures)});
  state.counts = at::full({}, counts ? 1. : 0., device);
  const Reported reported{
      .norm = some({}),
      .update = {.explained = at::full({}, counts ? 0.5 : nothing, device),
                 .nonfinite = some({}),
                 .scale = some({})},
      .epochs_done = at::full({}, 5, at::TensorOptions(at::kLong).device(device))};
  return {.name = std::string("reports") + (counts ? "" : " of nothing"),
          .reference =
              [=](const Tensors&) {
                return Tensors{reported_reference(state, reported), reported.epochs_done + kEpochs};
              },
          .fused =
              [=](const Tensors&) {
                auto sums = at::zeros({2, kStepFigures + 3}, state.lr.options());
                auto epochs = reported.epochs_done.clone();
                ppo_report_step_(state, reported.norm, sums, 0);
                ppo_report_update_(reported.update, sums, kStepFigures, kEpochs, epochs);
                return Tensors{sums, epochs};
              },
          .tolerance = 0,
          .bytes = 4 * 2 * (kStepFigures + 3),
          .flops = 2 * (kStepFigures + 3)};
}

}  // namespace

std::vector<KernelCase> ppo_scalar_cases(at::Device device) {
  std::vector<KernelCase> list;
  const ScalarSettings plain{.numbers = {.normalize = true}};
  ScalarSettings floor = plain, until = plain, kl = plain;
  floor.numbers.entropy_floor_penalty = 0.05f, floor.numbers.normalize = false;
  until.numbers.entropy_floor_penalty = 0.05f;
  until.schedules.entropy.until = 0.4, until.schedules.entropy_floor = {2, 0, 0.4};
  kl.numbers.target_kl = 0.01f;
  struct Named {
    const char* name;
    const ScalarSettings& settings;
    double valid = 0.9;  // share of rows
  };
  for (const auto& [name, settings, valid] : {Named{"plain", plain},
                                              {"entropy floor", floor},
                                              {"entropy until", until},
                                              {"nothing valid", floor, 0},
                                              {"target KL", kl}})
    for (int64_t lanes : {1, 16, 70}) {
      auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(lanes));
      auto some = [&](std::vector<int64_t> sizes) { return at::rand(sizes, gen).to(device); };
      // steps may lie behind the schedules' end
      PpoState state{.steps_done = some({}).to(at::kDouble) * 6000,
                     .lr = some({}),
                     .statistics = some({3}),
                     .clip = some({}),
                     .value_clip = some({}),
                     .entropy_coef = some({}),
                     .entropy_floor = some({}),
                     .last_entropy = some({}),
                     .stop = at::zeros({}, device),
                     .scalars = some({6}),
                     .figures = some({int64_t(kPpoFigures)}),
                     .counts = some({})};
      // one chunk of advantages, or two
      const int64_t count = lanes > 1 ? 2000 : 200;
      PpoAdvantages rows{
          .advantage = some({3000}),
          .valid = (some({3000}) < valid).to(at::kFloat),
          .index = at::randperm(3000, gen).narrow(0, 0, count).contiguous().to(device),
          .scratch = advantage_scratch(2000, device)};
      auto lane_figures = some({lanes, int64_t(kPpoFigures)}).to(at::kDouble);
      auto run = [=] {
        // every call begins at the same state
        PpoState s = state;
        for (auto* t :
             {&s.steps_done, &s.lr, &s.statistics, &s.clip, &s.value_clip, &s.entropy_coef,
              &s.entropy_floor, &s.last_entropy, &s.stop, &s.scalars, &s.figures, &s.counts})
          *t = t->clone();
        ThreadPool pool(1);
        PpoAdvantages of = rows;
        ppo_update_(s, settings.schedules);
        ppo_begin_(s, settings.numbers, of, pool);
        ppo_end_(s, settings.numbers, lane_figures);
        return outputs(s);
      };
      list.push_back({.name = "scalars: " + std::string(name) + " lanes=" + std::to_string(lanes),
                      .reference =
                          [=](const Tensors&) {
                            return outputs(
                                ppo_scalars_reference(state, settings, rows, lane_figures));
                          },
                      .fused = [=](const Tensors&) { return run(); },
                      .tolerance = 1e-6,
                      .bytes = 8 * lanes * kPpoFigures + 4 * 24,
                      .flops = lanes * kPpoFigures});
    }
  for (bool counts : {true, false}) list.push_back(report_case(counts, device));
  return list;
}

void ppo_update_(PpoState& s, const PpoSchedules& schedules) {
  const PpoUpdate update{.lr = schedules.lr,
                         .clip = schedules.clip,
                         .value_clip = schedules.value_clip,
                         .entropy = schedules.entropy,
                         .entropy_floor = schedules.entropy_floor,
                         .rows = double(schedules.rows),
                         .total = double(schedules.total),
                         .steps_done = at_start<double>(s.steps_done),
                         .lr_now = at_start<float>(s.lr),
                         .clip_now = at_start<float>(s.clip),
                         .value_clip_now = at_start<float>(s.value_clip),
                         .entropy_now = at_start<float>(s.entropy_coef),
                         .entropy_floor_now = at_start<float>(s.entropy_floor),
                         .stop = at_start<float>(s.stop)};
  launch<ppo_update_cuda>("ppo_update", s.lr.device(), ppo_update, update);
}

void ppo_begin_(PpoState& s, const PpoNumbers& numbers, PpoAdvantages& rows, ThreadPool& pool) {
  const at::Device device =
      device_of("ppo_begin", s.scalars, rows.advantage, rows.valid, rows.index, rows.scratch);
  const PpoBegin begin{.numbers = numbers,
                       .statistics = at_start<AdvantageStatistics>(s.statistics),
                       .clip = at_start<float>(s.clip),
                       .value_clip = at_start<float>(s.value_clip),
                       .entropy_coef = at_start<float>(s.entropy_coef),
                       .entropy_floor = at_start<float>(s.entropy_floor),
                       .last_entropy = at_start<float>(s.last_entropy),
                       .scalars = at_start<PpoLossScalars>(s.scalars)};
  const AdvantageArgs args{.advantage = rows.advantage.const_data_ptr<float>(),
                           .valid = rows.valid.const_data_ptr<float>(),
                           .index = rows.index.const_data_ptr<int64_t>(),
                           .count = rows.index.numel()};
  const auto on_cpu = [&](const PpoBegin& b, const AdvantageArgs&, AdvantagePartial*) {
    advantage_statistics_(s.statistics, rows.advantage, rows.valid, rows.index, rows.scratch, pool);
    ppo_begin(b);
  };
  launch<ppo_begin_cuda>("ppo_begin", device, on_cpu, begin, args,
                         at_start<AdvantagePartial>(rows.scratch));
}

void ppo_end_(PpoState& s, const PpoNumbers& numbers, const at::Tensor& lane_figures) {
  MAGLEV_ASSERT(lane_figures.is_contiguous() && lane_figures.size(1) == kPpoFigures,
                "[lanes, figures] f64");
  const PpoEnd end{.numbers = numbers,
                   .lane_figures = at_start<double>(lane_figures),
                   .lanes = lane_figures.size(0),
                   .scalars = at_start<const PpoLossScalars>(s.scalars),
                   .figures = at_start<float>(s.figures),
                   .counts = at_start<float>(s.counts),
                   .stop = at_start<float>(s.stop),
                   .last_entropy = at_start<float>(s.last_entropy)};
  launch<ppo_end_cuda>("ppo_end", device_of("ppo_end", s.figures, lane_figures), ppo_end, end);
}

void ppo_report_step_(const PpoState& s, const at::Tensor& norm, const at::Tensor& sums,
                      int64_t first) {
  const PpoStepReport report{.figures = at_start<float>(s.figures),
                             .counts = at_start<float>(s.counts),
                             .norm = at_start<float>(norm),
                             .lr = at_start<float>(s.lr),
                             .to = sums_of(sums, first)};
  launch<ppo_report_step_cuda>("ppo_report_step",
                               device_of("ppo_report_step", s.figures, norm, sums), ppo_report_step,
                               report);
}

void ppo_report_update_(const PpoUpdateFigures& f, const at::Tensor& sums, int64_t first,
                        int64_t epochs, const at::Tensor& epochs_done) {
  const PpoUpdateReport report{.explained = at_start<float>(f.explained),
                               .nonfinite = at_start<float>(f.nonfinite),
                               .scale = at_start<float>(f.scale),
                               .to = sums_of(sums, first),
                               .epochs = epochs,
                               .epochs_done = at_start<int64_t>(epochs_done)};
  launch<ppo_report_update_cuda>(
      "ppo_report_update",
      device_of("ppo_report_update", f.explained, f.nonfinite, f.scale, sums, epochs_done),
      ppo_report_update, report);
}

}  // namespace maglev
