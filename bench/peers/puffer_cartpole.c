// Steps per second of PufferLib's C cartpole without Python: N environments side by side in
// contiguous arrays, as the package's own binding lays them out, stepped one after another on one
// thread. Actions are drawn beforehand and copied in, as its Python class does.
//
//   puffer_cartpole <environments> <seconds>
//
// Prints one JSON object. Compiled by bench/setup.sh against the cartpole.h of the package.

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cartpole.h"

enum { kActionRows = 64 };

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void step_all(Cartpole** envs, int N, float* actions, const float* row) {
  memcpy(actions, row, (size_t)N * sizeof(float));
  for (int i = 0; i < N; ++i) c_step(envs[i]);
}

int main(int argc, char** argv) {
  const int N = argc > 1 ? atoi(argv[1]) : 0;
  const double seconds = argc > 2 ? atof(argv[2]) : 0;
  if (N < 1 || seconds <= 0) {
    fprintf(stderr, "usage: puffer_cartpole <environments> <seconds>\n");
    return 2;
  }
  float* observations = calloc((size_t)N * 4, sizeof(float));
  float* actions = calloc((size_t)N, sizeof(float));
  float* rewards = calloc((size_t)N, sizeof(float));
  unsigned char* terminals = calloc((size_t)N, 1);
  unsigned char* truncations = calloc((size_t)N, 1);
  Cartpole** envs = calloc((size_t)N, sizeof(Cartpole*));
  srand(1);
  float* rows = calloc((size_t)N * kActionRows, sizeof(float));
  for (int i = 0; i < N * kActionRows; ++i) rows[i] = (float)(rand() >> 8 & 1);
  for (int i = 0; i < N; ++i) {
    envs[i] = calloc(1, sizeof(Cartpole));
    envs[i]->observations = observations + 4 * i;
    envs[i]->actions = actions + i;
    envs[i]->rewards = rewards + i;
    envs[i]->terminals = terminals + i;
    envs[i]->truncations = truncations + i;
    init(envs[i]);
    c_reset(envs[i]);
  }

  // 608 time steps first, so that resets are spread over time
  long long turn = 0;
  for (; turn < 608; ++turn) step_all(envs, N, actions, rows + turn % kActionRows * N);
  const long long first = turn;
  const double start = now_s();
  double took = 0;
  do {
    for (int t = 0; t < 16; ++t, ++turn)
      step_all(envs, N, actions, rows + turn % kActionRows * N);
    took = now_s() - start;
  } while (took < seconds);

  double finished = 0, sum = 0;
  for (int i = 0; i < N; ++i) finished += envs[i]->log.n, sum += observations[4 * i];
  printf("{\"steps_per_second\": %.6g, \"episodes\": %.0f, \"observed\": %g}\n",
         (double)(turn - first) * N / took, finished, sum);
  return 0;
}
