#include "base/core/background.h"

#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/trace/span.h"

namespace maglev {

Background::Background(const char* name) {
  try {
    thread_ = std::thread([this, name] {
      trace::name_thread(name);
      run();
    });
  } catch (const std::system_error& refused) {
    throw Error(std::string("[threads] the system gives no further thread: ") + refused.what() +
                "; raise ulimit -u or lower threads");
  }
}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::start(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    MAGLEV_ASSERT(!work_, "one thing at a time");
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || stop_; });
    if (!work_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace maglev
