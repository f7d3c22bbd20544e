#include "program/team.h"

#include <unistd.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "program/pause.h"

namespace pyrite {

namespace {

// About 20 us: longer than a gap between two steps of a busy engine with little to do in between,
// and too short to be seen in the load of an idle one.
constexpr int kIdleSpins = 400;

}  // namespace

Team::Team(int size, Work work, void* context)
    : size_(size), work_(work), context_(context) {
  start();
}

Team::~Team() {
  if (owner_ != getpid()) {
    shared_.release();  // a forked child: these threads are not here to be joined
    return;
  }
  dismiss();
}

void Team::start() {
  shared_ = std::make_unique<Shared>();
  shared_->epoch.store(epoch_, std::memory_order_relaxed);
  owner_ = getpid();
  try {
    for (int member = 1; member < size_; ++member) {
      shared_->threads.emplace_back(&Team::serve, this, shared_.get(), member, epoch_);
    }
  } catch (const std::system_error& error) {
    dismiss();
    throw std::runtime_error("a thread of the team could not be started: " +
                             std::string(error.what()));
  } catch (...) {
    dismiss();
    throw;
  }
}

void Team::dismiss() {
  shared_->stop.store(true, std::memory_order_relaxed);
  shared_->epoch.fetch_add(1, std::memory_order_release);
  shared_->epoch.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

uint32_t Team::next_epoch() const { return epoch_ + 1; }

void Team::run() {
  if (owner_ != getpid()) {
    shared_.release();
    start();
  }
  ++epoch_;
  shared_->epoch.store(epoch_, std::memory_order_release);
  shared_->epoch.notify_all();
  work_(context_, 0, epoch_);
}

void Team::serve(Shared* shared, int member, uint32_t done) {
  while (true) {
    uint32_t epoch = done;
    for (int round = 0; epoch == done; ++round) {
      if (backoff(round, kIdleSpins)) shared->epoch.wait(done, std::memory_order_acquire);
      epoch = shared->epoch.load(std::memory_order_acquire);
    }
    if (shared->stop.load(std::memory_order_relaxed)) return;
    work_(context_, member, epoch);
    done = epoch;
  }
}

}  // namespace pyrite
