#include "engine/train/batches.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/trace/span.h"

namespace maglev {

Batches::Batches(Replay& replay, bool ahead)
    : replay_(replay), buffer_(replay.make_buffer()), alone_(1) {
  if (!ahead) return;
  next_ = replay.make_buffer();
  if (replay.device().is_cuda()) stream_ = std::make_unique<SideStream>(replay.device());
  else thread_ = std::make_unique<Background>("prefetch");
}

// what was begun ahead still reads the ring and writes next_
Batches::~Batches() {
  if (forked_) stream_->wait();
}

void Batches::join() {
  if (std::exchange(forked_, false)) stream_->join();
}

const Batch& Batches::get(const ReplayKey& key, ThreadPool& pool) {
  const auto sampling = trace::stage("sample");
  if (stream_) {
    // an update that threw has left it; whether next_ is this one the device knows
    join();
    replay_.sample(buffer_, key, pool, SampledColumns::all, &next_);
    return buffer_.batch;
  }
  // nothing counts as drawn where drawing failed
  const bool begun = std::exchange(drawn_, false);
  if (thread_) {
    const auto span = trace::wait("prefetch", "replay");
    thread_->wait();
  }
  const bool drawn =
      begun && key.base == nullptr && key_.seed == key.seed && key_.number == key.number;
  if (drawn) std::swap(buffer_, next_);
  replay_.sample(buffer_, key, pool, drawn ? SampledColumns::rewritten : SampledColumns::all);
  return buffer_.batch;
}

void Batches::draw_ahead(const ReplayKey& key) {
  if (stream_) {
    forked_ = true;
    stream_->fork([&] { replay_.sample(next_, key, alone_, SampledColumns::kept); });
    return;
  }
  if (!thread_ || key.base) return;
  thread_->wait();
  key_ = key, drawn_ = true;
  thread_->start([this] {
    const auto span = trace::stage("prefetch");
    replay_.sample(next_, key_, alone_, SampledColumns::kept);
  });
}

void Batches::drop() {
  if (stream_) next_.number.fill_(-1);
  if (thread_) thread_->wait();
  drawn_ = false;
}

void Batches::put_back() {
  join();
  replay_.put_back(buffer_);
}

}  // namespace maglev
