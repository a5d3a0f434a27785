#include "engine/device/step_graph.h"

#include <utility>

#include "base/core/error.h"
#include "base/trace/span.h"
#ifdef MAGLEV_DEVICE_CODE
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cuda_runtime_api.h>

#include "engine/device/device.h"
#include "engine/device/side_stream.h"
#endif

namespace maglev {
namespace {

// on the way out of something that failed: what it failed by is told, not this
void attempt(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception&) {
    // done already, or not begun
  }
}

}  // namespace

void capture_with(const CaptureCalls& calls, const std::string& name,
                  const std::function<void()>& stage) {
  bool begun = false, ended = false;
  try {
    calls.begin();
    begun = true;
    stage();
    ended = true;
    calls.end();
  } catch (const std::exception& e) {
    const std::string why = e.what();
    // the stream has to leave the capture whatever became of the graph
    if (begun && !ended) attempt(calls.end);
    attempt(calls.leave_pool);
    calls.forget_error();
    throw Error("[graph] " + name + ": " + why.substr(0, why.find('\n')));
  }
}

#ifdef MAGLEV_DEVICE_CODE

struct GraphPool::Device {
  explicit Device(at::Device device)
      : index(device.index()), side(device), memory(at::cuda::graph_pool_handle()) {}

  // throws where a capture has left it already, and then the graph gives its share back itself
  void leave() {
    // an id that no graph uses any more is not taken again: later captures get another
    const auto left = std::exchange(memory, at::cuda::graph_pool_handle());
    c10::cuda::CUDACachingAllocator::endAllocateToPool(index, left);
    c10::cuda::CUDACachingAllocator::releasePool(index, left);
    // pinned memory has a pool of the same name
    at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(left);
    at::getHostAllocator(at::kCUDA)->release_pool(left);
  }

  c10::DeviceIndex index;
  SideStream side;
  c10::MempoolId_t memory;
};

struct StepGraph::Graph {
  at::cuda::CUDAGraph graph;
};

GraphPool::GraphPool(at::Device device) {
  if (device.is_cuda()) device_ = std::make_unique<Device>(device);
}

void GraphPool::fork(const std::function<void()>& work) {
  if (!device_) return work();
  device_->side.fork(work);
}

void GraphPool::join() {
  if (device_) device_->side.join();
}

void GraphPool::abandon() noexcept {
  if (device_) device_->side.abandon();
}

void StepGraph::run(const std::function<void()>& stage) {
  if (!graph_) return stage();
  const auto span = trace::graph(phases_);
  graph_->graph.replay();
}

void StepGraph::capture(GraphPool& pool, const std::function<void()>& stage) {
  MAGLEV_ASSERT(pool.device_ != nullptr, "only a CUDA stage is captured");
  auto fresh = std::make_unique<Graph>();
  const auto generator =
      at::globalContext().defaultGenerator(at::Device(at::kCUDA, pool.device_->index));
  pool.device_->side.wait();
  const std::lock_guard lock(capture_mutex());
  fresh->graph.register_generator_state(generator);
  capture_with({.begin =
                    [&] {
                      // an evaluation's thread may allocate meanwhile
                      fresh->graph.capture_begin(pool.device_->memory,
                                                 cudaStreamCaptureModeThreadLocal);
                    },
                .end = [&] { fresh->graph.capture_end(); },
                .leave_pool = [&] { pool.device_->leave(); },
                .forget_error = [] { cudaGetLastError(); }},
               name_, stage);
  graph_ = std::move(fresh);
}

#else

struct GraphPool::Device {};
struct StepGraph::Graph {};

GraphPool::GraphPool(at::Device) {}
void GraphPool::fork(const std::function<void()>& work) { work(); }
void GraphPool::join() {}
void GraphPool::abandon() noexcept {}

void StepGraph::run(const std::function<void()>& stage) { stage(); }
void StepGraph::capture(GraphPool&, const std::function<void()>&) {
  throw Error("[graph] this build has no device code");
}

#endif

GraphPool::~GraphPool() = default;

void GraphPool::on_side_stream(const std::function<void()>& work) {
  try {
    fork(work);
  } catch (...) {
    abandon();
    throw;
  }
  join();
}

StepGraph::StepGraph(std::string name, const char* phases)
    : name_(std::move(name)), phases_(phases) {}
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
void StepGraph::reset() { graph_.reset(); }

}  // namespace maglev
