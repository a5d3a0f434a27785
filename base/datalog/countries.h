#pragma once
// The Countries benchmark (Bouchard, Singh, Trouillon 2015; its splits as in Nickel, Rosasco,
// Poggio 2016) on a world that is made: countries in subregions in regions, and who borders on
// whom. Which region held-out countries lie in is asked for, and each stage takes away one way more
// to know it.

#include <cstdint>

#include "base/datalog/dataset.h"

namespace maglev::datalog {

/// 244 countries, 22 subregions, 5 regions. Facts: locatedInCR(country, region),
/// locatedInCS(country, subregion), locatedInSR(subregion, region), neighborOf(country, country)
/// both ways.
struct CountriesOptions {
  /// 1: what the 48 held-out countries' regions are is not told. 2: nor their subregions. 3: nor
  /// what the regions of their neighbours are.
  int32_t stage = 1;
  uint64_t seed = 1;
};

/// Valid and test ask for the regions of 24 held-out countries each. Every one of them has a
/// neighbour in its region that is not held out, so that rules prove the query: in 2 steps (stage 1
/// and 2), or 4 (stage 3), which valid_depth and test_depth say. Land is contiguous, so that more
/// steps over borders prove wrong regions too. Throws Error for another stage.
Dataset make_countries(const CountriesOptions& options);

}  // namespace maglev::datalog
