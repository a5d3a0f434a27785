#include "algos/tdmpc2/learner.h"

#include "algos/tdmpc2/device/learner.h"
#include "algos/tdmpc2/panels/learner.h"
#include "algos/tdmpc2/policy.h"
#include "algos/tdmpc2/reference/learner.h"

namespace maglev::tdmpc2 {

namespace {

std::string obstacle(const LearnerOptions& o, at::Device device) {
  return device.is_cuda() ? DeviceLearner::obstacle(o) : PanelLearner::obstacle(o, device);
}

}  // namespace

LearnerKind learner_kind(const LearnerOptions& o, at::Device device) {
  if (!use_fused(o.options, obstacle(o, device))) return LearnerKind::reference;
  return device.is_cuda() ? LearnerKind::device : LearnerKind::panels;
}

std::string why_reference(const LearnerOptions& o, at::Device device) {
  const bool wanted = o.options.fused.value_or(true) && o.options.prune;
  return wanted ? obstacle(o, device) : "";
}

std::unique_ptr<Learner> made_learner(const LearnerOptions& o, LearnerState& state) {
  switch (learner_kind(o, state.grad.device())) {
    case LearnerKind::panels:
      return std::make_unique<PanelLearner>(o, state);
    case LearnerKind::device:
      return std::make_unique<DeviceLearner>(o, state);
    case LearnerKind::reference:
      break;
  }
  return std::make_unique<ReferenceLearner>(o, state);
}

}  // namespace maglev::tdmpc2
