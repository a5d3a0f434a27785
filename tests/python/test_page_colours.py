"""Colours of curves on the pages: seen on their background, and told apart, also without red, green or blue."""

import itertools
import re

import numpy as np
import pytest

# what readers without one kind of cones see, in linear RGB (Machado, Oliveira and Fernandes, 2009)
SEEN = {
    "all": np.eye(3),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
# linear RGB to the cones of OKLab, and those to lightness and two opposites (Ottosson, 2020)
CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]])
OPPOSITES = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]])


def linear(colour):
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def difference(a, b, seen):
    """In OKLab; black and white are 100 apart, and 2 is just noticed."""
    a, b = (OPPOSITES @ np.cbrt(CONES @ np.clip(SEEN[seen] @ linear(colour), 0, 1)) for colour in (a, b))
    return 100 * float(np.linalg.norm(a - b))


@pytest.fixture(params=["light", "dark"])
def palette(request, home):
    """(background, curves) of a colour scheme."""
    light, dark = (home / "base/web/page/style.css").read_text().split("@media (prefers-color-scheme: dark)")
    text = {"light": light, "dark": dark}[request.param]
    return re.search(r"--back: (#\w+)", text)[1], re.findall(r"--curve-\d: (#\w+)", text)


def test_figures_have_the_colours_of_the_light_page(home):
    light = (home / "base/web/page/style.css").read_text().split("@media")[0]
    chart = (home / "base/picture/chart.cpp").read_text().split("kColours[] = {")[1].split("}")[0]
    assert re.findall(r"#\w+", chart) == re.findall(r"--curve-\d: (#\w+)", light)


def test_channels_are_seen_on_black(home):
    dark = (home / "base/web/page/style.css").read_text().split("@media (prefers-color-scheme: dark)")[1]
    tints = re.findall(r"--tint-\d: (#\w+)", (home / "verbs/play/page/play.css").read_text())
    assert sorted(tints) == sorted(re.findall(r"--curve-\d: (#\w+)", dark))
    assert [colour for colour in tints if contrast(colour, "#000000") < 3] == []


def test_curves_are_seen_on_their_background(palette):
    back, curves = palette
    assert len(curves) == 8
    assert [colour for colour in curves if contrast(colour, back) < 3] == []


@pytest.mark.parametrize("seen", SEEN)
def test_curves_are_told_apart(palette, seen):
    _, curves = palette
    near = {pair: difference(*pair, seen) for pair in itertools.combinations(curves, 2)}
    assert {pair: apart for pair, apart in near.items() if apart < 10} == {}
