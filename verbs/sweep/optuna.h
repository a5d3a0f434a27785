#pragma once
// Optuna behind the samplers' interface: a Python process that is asked once a trial, one line of
// JSON each way (optuna_ask.py, whose first lines describe them). The package is optional.

#include <string>

#include "base/search/sampler.h"

namespace maglev::verbs::sweep {

/// The Python that is asked: MAGLEV_OPTUNA_PYTHON, else python3. Throws Error when it cannot be run
/// or has no Optuna, saying how to install it, and for a sampler that Optuna does not stand for.
std::string find_optuna(const std::string& sampler);

/// What Optuna's sampler of that name tries next. Throws Error when it cannot say.
search::Proposal ask_optuna(const std::string& python, const std::string& sampler,
                            const search::Question& question);

}  // namespace maglev::verbs::sweep
