"""Atari's games with the preprocessing that DQN and PPO are published with (Mnih et al., 2015; as Stable-Baselines3's
AtariWrapper and CleanRL have it):

    .venv/bin/pip install ale-py
    export PYTHONPATH=examples/python
    ./maglev train ppo gymnasium --config configs/ppo/atari.yaml env.id=atari:Game env.kwargs='{"game": "pong"}'
    ./maglev eval runs/... env.kwargs='{"game": "pong", "whole": true}'

An action is held for four frames, of which the brighter pixels of the last two are seen, in grey: what games draw in
every other frame does not vanish. An episode begins after up to 30 frames in which nothing is done, with FIRE where a game
waits for that, and ends as a life is lost; the next one goes on in the same game. Rewards are -1, 0 or 1. With `whole` an
episode is a game, which is fired again after each life, and rewards are its points, as scores are published. env.image
scales and stacks what is seen.
"""

import ale_py
import gymnasium
import numpy as np
from ale_py import roms
from gymnasium import spaces

FRAMES = 4  # of an action
NOOPS = 30  # frames at most before a game begins
LONGEST = 108_000  # frames of a game: half an hour


class Game(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 60 // FRAMES}

    def __init__(self, game="breakout", whole=False, sticky=0.0, render_mode=None):
        """game: as ale-py names its files, space_invaders. sticky: the probability that a frame repeats the action before;
        0.25 as in Machado et al., "Revisiting the Arcade Learning Environment", 2018."""
        self.path = roms.get_rom_path(game)
        if self.path is None:
            raise ValueError(f"there is no game {game!r}; ale-py has {', '.join(roms.get_all_rom_ids())}")
        self.whole, self.sticky, self.render_mode = whole, sticky, render_mode
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", sticky)
        self.ale.loadROM(self.path)
        self.actions = self.ale.getMinimalActionSet()
        size = self.ale.getScreenDims()
        self.frames = np.zeros((2, *size), np.uint8)
        self.observation_space = spaces.Box(0, 255, (*size, 1), np.uint8)
        self.action_space = spaces.Discrete(len(self.actions))
        self.goes_on = False  # a life was lost, and the game is not over

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.goes_on:
            self.hold(0)
        if not self.goes_on or self.ale.game_over():
            self.begin()
        self.goes_on = False
        self.fire()
        return self.seen(), {"score": 0.0}

    def begin(self):
        """A new game, and frames in which nothing is done."""
        if self.sticky:
            # the emulator takes a seed as it loads a game
            self.ale.setInt("random_seed", int(self.np_random.integers(2**31)))
            self.ale.loadROM(self.path)
        self.ale.reset_game()
        for _ in range(self.np_random.integers(1, NOOPS, endpoint=True)):
            self.ale.act(self.actions[0])
        self.frames[:] = self.ale.getScreenGrayscale()

    def fire(self):
        """FIRE where a game waits for that, then the next action, as the wrappers do that are named above. Their points."""
        score = 0.0
        if ale_py.Action.FIRE in self.actions:
            score = self.hold(1) + self.hold(2)
        self.lives = self.ale.lives()
        return score

    def hold(self, action):
        """The points of an action's frames, fewer of which there are where the game ends."""
        score = 0.0
        for frame in range(FRAMES):
            score += self.ale.act(self.actions[action])
            if frame >= FRAMES - 2:
                self.ale.getScreenGrayscale(self.frames[frame - FRAMES])
            if self.ale.game_over():
                break
        return score

    def seen(self):
        return self.frames.max(0)[..., None]

    def step(self, action):
        score = self.hold(action)
        over, lost_life = self.ale.game_over(), self.ale.lives() < self.lives
        self.lives = self.ale.lives()
        if lost_life and self.whole and not over:
            score += self.fire()
        truncated = not over and self.ale.getEpisodeFrameNumber() >= LONGEST
        terminated = over or (lost_life and not self.whole)
        self.goes_on = terminated and not over
        reward = score if self.whole else float(np.sign(score))
        return self.seen(), reward, terminated, truncated, {"score": score}

    def render(self):
        return self.ale.getScreenRGB()
