#include "python/bindings/envs.h"

#include <cstring>
#include <functional>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "python/bindings/actor.h"

namespace maglev::python {
namespace {

EnvsRequest asked(const std::string& name, at::Device device) {
  EnvsRequest request{
      .name = name, .count = 5, .seed = 3, .placement = {.device = device, .threads = 2}};
  if (name == "goodhart")
    request.settings = {"env.width=32", "env.height=32", "env.min_food=4", "env.max_food=16"};
  return request;
}

/// Everything a step shows, in host memory.
std::vector<at::Tensor> all_of(const Envs& envs) {
  std::vector<at::Tensor> all = envs.shown().obs;
  if (envs.shown().mask.defined()) all.push_back(envs.shown().mask);
  for (const at::Tensor& t :
       {envs.shown().is_first, envs.reward(), envs.terminated(), envs.truncated()})
    all.push_back(t);
  // two sets take turns
  for (at::Tensor& t : all) t = t.cpu().clone();
  return all;
}

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].is_floating_point() ? at::allclose(a[i], b[i], 1e-5, 1e-5)
                                         : at::equal(a[i], b[i]))
        << "column " << i;
}

TEST(PythonEnvs, restore_comes_back_whichever_of_the_two_steps_it_was) {
  for (int before : {0, 1, 2, 3}) {
    Envs envs(asked("cartpole", at::kCPU));
    envs.reset();
    const at::Tensor push = at::ones({5}, at::kLong);
    for (int i = 0; i < before; ++i) envs.step(push);
    const auto kept = envs.keep();
    std::vector<std::vector<at::Tensor>> first;
    for (int i = 0; i < 20; ++i) envs.step(push), first.push_back(all_of(envs));
    envs.restore(kept);
    for (int i = 0; i < 20; ++i) {
      envs.step(push);
      const auto again = all_of(envs);
      for (size_t c = 0; c < again.size(); ++c)
        EXPECT_TRUE(at::equal(again[c], first[size_t(i)][c]));
    }
  }
}

TEST(PythonEnvs, a_step_that_is_refused_changes_nothing) {
  Envs envs(asked("cartpole", at::kCPU));
  EXPECT_THROW(envs.step(at::zeros({5}, at::kLong)), Error);
  envs.reset();
  envs.step(at::zeros({5}, at::kLong));
  const auto before = all_of(envs);
  EXPECT_THROW(envs.step(at::full({5}, 2, at::kLong)), Error);
  EXPECT_THROW(envs.step(at::zeros({4}, at::kLong)), Error);
  expect_same(all_of(envs), before);
}

TEST(PythonEnvs, step_on_cuda_as_on_the_processor) {
  for (const char* name : {"cartpole", "goodhart", "pendulum", "kg"}) {
    Envs host(asked(name, at::kCPU)), device(asked(name, at::kCUDA));
    Actor random(host, "random", {}, ActMode::sample, /*temperature=*/1, /*seed=*/1);
    host.reset(), device.reset();
    EnvsState kept = device.keep();
    for (int t = 0; t < 30; ++t) {
      const at::Tensor action =
          random.act(host.shown().obs, host.shown().mask, host.shown().is_first);
      host.step(action), device.step(action.to(device.device()));
      expect_same(all_of(host), all_of(device));
      if (t == 3) kept = device.keep();
    }
    EXPECT_EQ(device.take_totals().steps, host.take_totals().steps);
    const auto shown = all_of(device);
    const EncodedObs seen = device.encode(device.shown().obs),
                     by_host = host.encode(host.shown().obs);
    if (seen.policy.image.defined()) {
      EXPECT_TRUE(at::allclose(seen.policy.image.cpu(), by_host.policy.image)) << name;
    }
    device.restore(kept);
    const at::Tensor now = device.shown().obs[0].cpu();
    if (std::strcmp(name, "kg") != 0) {
      EXPECT_FALSE(at::equal(now, shown[0])) << name;
    }
  }
}

TEST(PythonEnvs, closed_ones_say_so_and_still_tell_what_they_are) {
  Envs envs(asked("cartpole", at::kCPU));
  envs.reset();
  const auto kept = envs.keep();
  envs.close(), envs.close();
  EXPECT_EQ(envs.rows(), 5);
  EXPECT_EQ(std::string(envs.entry().name), "cartpole");
  const at::Tensor push = at::ones({5}, at::kLong);
  const std::function<void()> calls[] = {
      [&] { envs.reset(); },       [&] { envs.reset(7); },         [&] { envs.step(push); },
      [&] { envs.take_totals(); }, [&] { envs.picture(0, 8, 8); }, [&] { envs.keep(); },
      [&] { envs.restore(kept); }};
  for (const auto& call : calls) try {
      call();
      ADD_FAILURE() << "closed environments go on";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "[envs] these environments of cartpole are closed; make others");
    }
}

TEST(PythonEnvs, categories_that_are_none_are_held_to_their_range_on_cuda) {
  Envs beyond(asked("cartpole", at::kCUDA)), within(asked("cartpole", at::kCUDA));
  beyond.reset(), within.reset();
  const auto of = [&](int64_t category) {
    return at::full({5}, category, at::TensorOptions(at::kLong).device(beyond.device()));
  };
  beyond.step(of(7)), within.step(of(1));
  expect_same(all_of(beyond), all_of(within));
  beyond.step(of(-3)), within.step(of(0));
  expect_same(all_of(beyond), all_of(within));
}

TEST(PythonEnvs, draws_what_is_on_cuda) {
  Envs host(asked("cartpole", at::kCPU)), device(asked("cartpole", at::kCUDA));
  host.reset(), device.reset();
  const at::Tensor shown = device.picture(4, 64, 48);
  EXPECT_EQ(shown.sizes(), (std::vector<int64_t>{48, 64, 3}));
  EXPECT_TRUE(at::equal(shown, host.picture(4, 64, 48)));
}

}  // namespace
}  // namespace maglev::python
