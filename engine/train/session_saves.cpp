// Checkpoints of a session: what is saved, and what becomes of it where it cannot be.

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include <torch/version.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/version.h"
#include "base/processes/process_group.h"
#include "base/trace/span.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/session.h"
#include "engine/train/timed.h"
#include "engine/train/training_run.h"

namespace maglev {

CheckpointIdentity Session::identity_now() const {
  const Experiment& experiment = trainer_.experiment();
  CheckpointIdentity identity = identity_of(experiment);
  identity.engine_version = kEngineVersion;
  identity.torch_version = TORCH_VERSION;
  identity.options_yaml = experiment.table().yaml();
  identity.step = trainer_.step();
  identity.updates = trainer_.updates();
  identity.return_mean = trainer_.report().settled_return_mean();
  identity.seconds = trainer_.report().seconds();
  identity.evaluate = evaluation_due();
  return identity;
}

std::string Session::save_checkpoint(const CheckpointIdentity& identity, std::string& trouble) {
  bool visited = false;
  try {
    return store_.save(
        identity,
        [&](StateVisitor& v) {
          trainer_.save_state(v);
          visited = true;
        },
        &trouble, between_);
  } catch (const Error& e) {
    // processes of which one left a visit halfway are out of step
    if (trainer_.placement().group && !visited) throw ProcessGroup::Gone(e.what());
    throw;
  }
}

void Session::save(bool must, bool between) {
  const auto span = trace::stage("save");
  trace_.excuse();
  Timed timed(monitor_.beside().saving);
  const double begin_s = steady_s();
  push(/*wait=*/true);
  writer_.flush();
  // a device has told nothing since the last flush
  trainer_.expect_sound();
  CheckpointIdentity identity = identity_now();
  if (between) identity.return_mean = std::numeric_limits<double>::quiet_NaN();
  std::string path, trouble;
  const auto attempt = [&] {
    look_after_folder();
    path = save_checkpoint(identity, trouble);
  };
  const std::string step = by_thousands(trainer_.step());
  try {
    attempt();
  } catch (const ProcessGroup::Gone&) {
    throw;
  } catch (const RunDir::Taken&) {
    throw;
  } catch (const Error& e) {
    // a run that has not begun loses nothing
    if (trainer_.step() == 0) throw;
    const std::string why = "no checkpoint at step " + step + ": " + e.what();
    if (must) retry_save(why, attempt);
    else if (!std::exchange(unsaved_, true))
      say(why + "; training goes on and tries again whenever one is due");
  }
  if (!path.empty()) {
    save_league(trouble);
    between_ = between ? path : "";
    saved_step_ = trainer_.step();
    unsaved_ = false;
    say("checkpoint saved at step " + step + (trouble.empty() ? "" : "; then: " + trouble));
    // from here on it is judged, by this session or by one that resumes the run
    if (identity.evaluate) unjudged_.push_back(path);
  }
  saved_s_ = steady_s(), save_took_s_ = saved_s_ - begin_s;
  tell_status();
}

void Session::save_league(std::string& trouble) {
  const League* league = trainer_.league();
  if (!league) return;
  try {
    write_atomic(dir_.path() + "/league.json", league->json(trainer_.step()));
  } catch (const Error& e) {
    trouble += (trouble.empty() ? "" : "; ") + std::string(e.what());
  }
}

void Session::retry_save(const std::string& why, const std::function<void()>& attempt) {
  constexpr double kFirstPause = 0.25, kLongestPause = 30;
  using namespace std::chrono_literals;
  // one that was told to leave before is ended at once by another signal
  const bool leaving = SignalGuard::signalled();
  const double end_s = steady_s() + options().retry_save;
  if (options().retry_save > 0)
    // the folder has no room for a line
    writer_.tell(why + "; " + kTriedAgain + printed("%g s", options().retry_save) +
                 " (train.retry_save), Ctrl-C ends without it");
  std::string last = why;
  for (double pause = kFirstPause; steady_s() < end_s; pause = std::min(2 * pause, kLongestPause)) {
    const double next_s = std::min(steady_s() + pause, end_s);
    while (steady_s() < next_s && SignalGuard::signalled() == leaving)
      std::this_thread::sleep_for(20ms);
    if (SignalGuard::signalled() != leaving) break;
    try {
      return attempt();
    } catch (const ProcessGroup::Gone&) {
      throw;
    } catch (const RunDir::Taken&) {
      throw;
    } catch (const Error& e) {
      last = "no checkpoint at step " + by_thousands(trainer_.step()) + ": " + e.what();
    }
  }
  throw Error(last + "; what was learned since step " + by_thousands(saved_step_) +
              " is lost, train --resume goes on from there");
}

}  // namespace maglev
