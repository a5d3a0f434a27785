"""How spaces of Gymnasium become columns of observations and heads of actions, and what is refused: for worker.py's
environments, and maglev.gymnasium, whose policies act in them.
"""

FARTHEST = 1e30  # bounds of actions beyond it are none
MOST_CATEGORIES = 1000  # of whole numbers within bounds
LONGEST = 400  # of what is told of an observation or an exception


class Unsuited(Exception):
    """An environment that cannot be used as it is; says what would help."""


def is_picture(space):
    import numpy as np
    from gymnasium import spaces

    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) < 2:
        return False
    if len(space.shape) > 3:
        raise Unsuited(
            f"shows pictures of shape {space.shape}; Maglev takes [H, W] and [H, W, C], of the last steps with "
            "env.image.stack"
        )
    return True


def expect_gymnasiums(space, what):
    """A space of Gym, which Gymnasium came from, is none of Gymnasium's, whatever its name."""
    if type(space).__module__.split(".")[0] == "gym":
        raise Unsuited(
            f"{what} a space of the package gym, gym.spaces.{type(space).__name__}: make it one of gymnasium.spaces, or "
            "take the environment through shimmy (env.id=shimmy:GymV26Environment-v0 'env.kwargs={\"env_id\": ...}')"
        )


def named(way):
    return "".join(f"[{step!r}]" for step in way)


def shortened(text):
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."


class Picture:
    """A part of what is seen that is [H, W, C], or will be: channels, and stacked grey pictures, may come first."""

    def __init__(self, name, way, shape):
        self.name, self.way, self.shape = name, way, shape
        self.channels_first = len(shape) == 3 and shape[0] < min(shape[1:])
        rows = (*shape[1:], shape[0]) if self.channels_first else shape
        self.column = [int(n) for n in (*rows, 1)[:3]]


class Observations:
    """Pictures are columns [H, W, C] of their own, all else one column of numbers, categories as one-hot."""

    def __init__(self, space):
        import numpy as np
        from gymnasium import spaces

        self.np, self.spaces, self.flatten, self.space = np, spaces, spaces.flatten, space
        self.pictures = []
        self.numbers = []  # (space, way to it, how many)
        self.look(space, ())
        self.size = sum(count for _, _, count in self.numbers)
        self.plain = not self.pictures and isinstance(space, spaces.Box)
        self.shape = space.shape

    def look(self, space, way):
        from gymnasium import spaces

        if isinstance(space, spaces.Dict):
            for name, part in space.spaces.items():
                self.look(part, (*way, name))
        elif isinstance(space, spaces.Tuple):
            for i, part in enumerate(space.spaces):
                self.look(part, (*way, i))
        elif is_picture(space):
            name = "_".join(str(part) for part in way) or "image"
            # numbers have that name
            self.pictures.append(Picture("vector_image" if name == "vector" else name, way, space.shape))
        elif isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
            self.numbers.append((space, way, spaces.flatdim(space)))
        else:
            expect_gymnasiums(space, "shows")
            raise Unsuited(
                f"shows a space {type(space).__name__}; Maglev takes Box, Discrete, MultiDiscrete, MultiBinary, and "
                "Dict and Tuple of those: wrap it (gymnasium.ObservationWrapper)"
            )

    def columns(self):
        columns = [{"name": "vector", "dtype": "f32", "shape": [self.size]}] if self.size else []
        return columns + [{"name": p.name, "dtype": "u8", "shape": p.column} for p in self.pictures]

    def part(self, seen, way):
        for i, step in enumerate(way):
            try:
                seen = seen[step]
            except (KeyError, IndexError, TypeError) as error:
                text = f"showed no observation{named(way[: i + 1])}, which its space has"
                raise Unsuited(text) from error
        return seen

    def numbers_of(self, space, part, way):
        """f32, one row of the space's numbers; as they lie where they are all that is seen."""
        cause = None
        try:
            if self.plain:
                return self.np.asarray(part, self.np.float32)
            # flatten makes a one among another category's of what is none of a space's
            if self.are_categories(space, part):
                return self.np.asarray(self.flatten(space, part), self.np.float32)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            cause = error
        text = f"showed an observation{named(way)} = {shortened(repr(part))}, where its space is {shortened(str(space))}"
        raise Unsuited(text) from cause

    def are_categories(self, space, part):
        """Whether they are those of a Discrete or MultiDiscrete; true of other spaces."""
        if isinstance(space, self.spaces.Discrete):
            return 0 <= part - space.start < space.n
        if isinstance(space, self.spaces.MultiDiscrete):
            chosen = part - space.start
            return bool(((chosen >= 0) & (chosen < space.nvec)).all())
        return True

    def bytes_of(self, part, way):
        """u8, in which pictures of shares from 0 to 1 would be black."""
        np = self.np
        given = np.asarray(part)
        if given.dtype == np.uint8:
            return given
        try:
            whole = given.astype(np.uint8)
        except (TypeError, ValueError):
            whole = None
        if whole is None or not np.array_equal(whole, given):
            raise Unsuited(
                f"showed an observation{named(way)} of {given.dtype}, where its space has uint8: pictures are whole "
                "numbers from 0 to 255"
            )
        return whole

    def expect(self, seen, shape, way):
        if seen.shape != shape:
            raise Unsuited(f"showed an observation{named(way)} of shape {seen.shape}, where its space has {shape}")
        return seen

    def write(self, to, seen):
        if self.plain:
            to += self.expect(self.numbers_of(self.space, seen, ()), self.shape, ()).tobytes()
            return
        for space, way, count in self.numbers:
            to += self.expect(self.numbers_of(space, self.part(seen, way), way), (count,), way).tobytes()
        for picture in self.pictures:
            rows = self.expect(self.bytes_of(self.part(seen, picture.way), picture.way), picture.shape, picture.way)
            to += (rows.transpose(1, 2, 0) if picture.channels_first else rows).tobytes()


class Actions:
    """Categories as i32, numbers within bounds as f32; what an agent draws beyond them is the nearest."""

    def __init__(self, space):
        import numpy as np
        from gymnasium import spaces

        self.heads, self.low, self.high = [], [], []
        if isinstance(space, spaces.Discrete):
            self.heads, start = [int(space.n)], int(space.start)
            self.read = lambda sent: start + int.from_bytes(sent, "little")
        elif isinstance(space, spaces.MultiDiscrete):
            self.heads = [int(n) for n in space.nvec.reshape(-1)]
            start, shape, dtype = np.asarray(space.start), space.nvec.shape, space.dtype
            self.read = lambda sent: (np.frombuffer(sent, np.int32).reshape(shape) + start).astype(dtype)
        elif isinstance(space, spaces.MultiBinary):
            shape, dtype = space.shape, space.dtype
            self.heads = [2] * int(np.prod(shape))
            self.read = lambda sent: np.frombuffer(sent, np.int32).reshape(shape).astype(dtype)
        elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            if not np.all((space.low > -FARTHEST) & (space.high < FARTHEST)):
                raise Unsuited(
                    f"takes actions {space}, not all of which have bounds: give them some with a wrapper "
                    "(gymnasium.wrappers.TransformAction with a Box within bounds)"
                )
            low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
            self.low, self.high = ([float(x) for x in bound.reshape(-1)] for bound in (low, high))
            self.read = lambda sent: np.asarray(
                np.clip(np.frombuffer(sent, np.float32).reshape(shape).astype(dtype), low, high)
            )
        elif isinstance(space, spaces.Box):
            # of narrow integers the difference may be none
            if not np.all(space.high / 1.0 - space.low < MOST_CATEGORIES):
                raise Unsuited(
                    f"takes actions {space}; of whole numbers within bounds Maglev gives those with {MOST_CATEGORIES:,} "
                    "values at most: make them floats, or fewer (gymnasium.wrappers.TransformAction)"
                )
            start, shape, dtype = space.low.astype(np.int64), space.shape, space.dtype
            self.heads = [int(n) + 1 for n in (space.high - start).reshape(-1)]
            self.read = lambda sent: np.asarray(np.frombuffer(sent, np.int32).reshape(shape) + start, dtype)
        else:
            expect_gymnasiums(space, "takes actions of")
            raise Unsuited(
                f"takes actions {space}; Maglev gives Discrete, MultiDiscrete, MultiBinary and Box: wrap it "
                "(gymnasium.wrappers.TransformAction), in one MultiDiscrete if all its parts are categories, in one Box "
                "if all are numbers"
            )
        if any(n < 2 for n in self.heads):
            raise Unsuited(f"takes actions {space}, among which there is nothing to choose")
        self.bytes = 4 * (len(self.heads) or len(self.low))
