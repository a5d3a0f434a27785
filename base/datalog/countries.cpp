#include "base/datalog/countries.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/core/error.h"
#include "base/core/philox.h"
#include "base/datalog/rules.h"

namespace maglev::datalog {
namespace {

constexpr int32_t kWidth = 64, kHeight = 40;  // cells of the map
constexpr int32_t kLand = 1400;               // of them
constexpr int32_t kCountries = 244, kSubregions = 22, kRegions = 5;
constexpr int32_t kHeldOut = 24;  // of valid, and of test

// by a shorter way: region, over a border, and over a border without being told a region
constexpr const char* kBySubregion = "locatedInCR(X,Z) :- locatedInCS(X,W), locatedInSR(W,Z).\n";
constexpr const char* kByNeighbour = "locatedInCR(X,Z) :- neighborOf(X,Y), locatedInCR(Y,Z).\n";

struct CountryWorld {
  std::vector<int32_t> subregion;         // of each country
  std::vector<int32_t> region;            // of each subregion
  std::vector<std::set<int32_t>> border;  // countries beside each country
  std::vector<int32_t> held_out;          // valid and test in turn

  int32_t region_of(int32_t country) const { return region[size_t(subregion[size_t(country)])]; }
};

struct MapCell {
  int32_t x, y;
};
int32_t squared_distance(MapCell a, MapCell b) {
  return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}
int32_t nearest(const std::vector<MapCell>& places, MapCell to) {
  return int32_t(std::min_element(places.begin(), places.end(),
                                  [&](MapCell a, MapCell b) {
                                    return squared_distance(a, to) < squared_distance(b, to);
                                  }) -
                 places.begin());
}
// as far from each other as can be, one after the other
std::vector<MapCell> spread(const std::vector<MapCell>& places, int32_t count, Rng& rng) {
  std::vector<MapCell> chosen{places[rng.below(uint32_t(places.size()))]};
  while (int32_t(chosen.size()) < count) {
    const auto alone = [&](MapCell p) {
      return squared_distance(p, chosen[size_t(nearest(chosen, p))]);
    };
    chosen.push_back(*std::max_element(places.begin(), places.end(),
                                       [&](MapCell a, MapCell b) { return alone(a) < alone(b); }));
  }
  return chosen;
}

CountryWorld make_world(uint64_t seed, uint64_t attempt) {
  Rng rng(seed, stream_id(Purpose::dataset, 1), attempt << 32);
  CountryWorld world;

  // countries grow from their capitals until there is enough land
  std::vector<int32_t> country(kWidth * kHeight, -1);
  std::vector<MapCell> capitals;
  while (int32_t(capitals.size()) < kCountries) {
    const int32_t cell = int32_t(rng.below(kWidth * kHeight));
    if (country[size_t(cell)] >= 0) continue;
    country[size_t(cell)] = int32_t(capitals.size());
    capitals.push_back({cell % kWidth, cell / kWidth});
  }
  const auto country_at = [&](int32_t x, int32_t y) {
    return x < 0 || y < 0 || x >= kWidth || y >= kHeight ? -1 : country[size_t(y * kWidth + x)];
  };
  constexpr MapCell kSides[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  for (int32_t land = kCountries; land < kLand;) {
    const int32_t cell = int32_t(rng.below(kWidth * kHeight));
    const MapCell side = kSides[rng.below(4)];
    const int32_t beside = country_at(cell % kWidth + side.x, cell / kWidth + side.y);
    if (country[size_t(cell)] >= 0 || beside < 0) continue;
    country[size_t(cell)] = beside;
    ++land;
  }
  world.border.resize(kCountries);
  for (int32_t y = 0; y < kHeight; ++y)
    for (int32_t x = 0; x < kWidth; ++x)
      for (MapCell side : kSides) {
        const int32_t here = country_at(x, y), there = country_at(x + side.x, y + side.y);
        if (here >= 0 && there >= 0 && here != there) world.border[size_t(here)].insert(there);
      }

  // subregions and regions are what lies near
  const std::vector<MapCell> subregions = spread(capitals, kSubregions, rng);
  const std::vector<MapCell> regions = spread(subregions, kRegions, rng);
  for (MapCell capital : capitals) world.subregion.push_back(nearest(subregions, capital));
  for (MapCell middle : subregions) world.region.push_back(nearest(regions, middle));

  // whom to ask for, in an order drawn; each keeps a neighbour that tells
  std::vector<uint8_t> held(kCountries);
  const auto told = [&](int32_t c) {
    return std::any_of(
        world.border[size_t(c)].begin(), world.border[size_t(c)].end(), [&](int32_t other) {
          return !held[size_t(other)] && world.region_of(other) == world.region_of(c);
        });
  };
  std::vector<int32_t> order(kCountries);
  for (int32_t i = 0; i < kCountries; ++i) {
    const size_t j = rng.below(uint32_t(i + 1));
    order[size_t(i)] = order[j], order[j] = i;
  }
  for (int32_t c : order) {
    if (int32_t(world.held_out.size()) == 2 * kHeldOut) break;
    held[size_t(c)] = 1;
    const auto& border = world.border[size_t(c)];
    const bool fine = told(c) && std::all_of(border.begin(), border.end(), [&](int32_t other) {
                        return !held[size_t(other)] || told(other);
                      });
    if (fine) world.held_out.push_back(c);
    else held[size_t(c)] = 0;
  }
  return world;
}

std::string numbered(const char* what, int32_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%s_%0*d", what, digits, number);
  return text;
}

}  // namespace

Dataset make_countries(const CountriesOptions& options) {
  if (options.stage < 1 || options.stage > 3)
    throw Error("[countries] expected stage 1, 2 or 3, got " + std::to_string(options.stage));
  CountryWorld world;
  for (uint64_t attempt = 0; world.held_out.size() != 2 * kHeldOut; ++attempt)
    world = make_world(options.seed, attempt);

  Dataset dataset{.name = "countries_s" + std::to_string(options.stage)};
  Program& program = dataset.program;
  std::vector<int32_t> countries, subregions, regions;
  for (int32_t i = 0; i < kCountries; ++i)
    countries.push_back(program.constants.add(numbered("country", i + 1, 3)));
  for (int32_t i = 0; i < kSubregions; ++i)
    subregions.push_back(program.constants.add(numbered("subregion", i + 1, 2)));
  for (int32_t i = 0; i < kRegions; ++i)
    regions.push_back(program.constants.add(numbered("region", i + 1, 1)));
  const int32_t in_region = program.predicates.add("locatedInCR"),
                in_subregion = program.predicates.add("locatedInCS"),
                part_of = program.predicates.add("locatedInSR"),
                neighbour = program.predicates.add("neighborOf");
  const auto region_query = [&](int32_t c) {
    return Atom{in_region, countries[size_t(c)], regions[size_t(world.region_of(c))]};
  };

  // what is told: a stage more, a thing less
  std::vector<uint8_t> held(kCountries), beside(kCountries);
  for (int32_t c : world.held_out) {
    held[size_t(c)] = 1;
    for (int32_t other : world.border[size_t(c)]) beside[size_t(other)] = 1;
  }
  for (int32_t c = 0; c < kCountries; ++c) {
    const size_t i = size_t(c);
    if (!held[i] && !(options.stage >= 3 && beside[i])) dataset.train.push_back(region_query(c));
    if (!held[i] || options.stage < 2)
      dataset.train.push_back({in_subregion, countries[i], subregions[size_t(world.subregion[i])]});
    for (int32_t other : world.border[i])
      dataset.train.push_back({neighbour, countries[i], countries[size_t(other)]});
  }
  for (size_t s = 0; s < kSubregions; ++s)
    dataset.train.push_back({part_of, subregions[s], regions[size_t(world.region[s])]});
  program.facts = dataset.train;

  // what is asked
  const int32_t steps = options.stage < 3 ? 2 : 4;
  for (size_t i = 0; i < world.held_out.size(); ++i) {
    const bool valid = i % 2 == 0;
    (valid ? dataset.valid : dataset.test).push_back(region_query(world.held_out[i]));
    (valid ? dataset.valid_depth : dataset.test_depth).push_back(steps);
  }
  parse_rules({"countries", kBySubregion}, program);
  if (options.stage > 1) parse_rules({"countries", kByNeighbour}, program);
  dataset.domains = {regions, subregions, regions, countries};
  dataset.sort_names();
  return dataset;
}

}  // namespace maglev::datalog
