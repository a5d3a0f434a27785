#pragma once
// A game as a live page.
//   /api/about      who plays what, and the game that was meant on the command line
//   /api/frames?seed=&actions=&from=&count=       steps of a game
//   /api/insight?seed=&actions=&n=&of=            what the policy made of one of them
// Which game and which step is said in the question, so a page holds its own controls and changes
// nothing for others.

#include "base/web/server.h"
#include "verbs/play/sessions.h"

namespace maglev::verbs::play {

/// Serves until a signal comes, `key` at first. Throws Error: a match that cannot be made, or as
/// WebServer.
void serve(MakeMatch make, const GameKey& key, const WebOptions& options);

}  // namespace maglev::verbs::play
