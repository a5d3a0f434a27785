// The steps of one game: fetched ahead of what is shown, and kept as the server keeps them.
import { ask } from "/page.js";

const MOST_ASKED = 64;

export class Game {
  /** `key`: {seed, actions}. `begun` is called when the server began it anew. */
  constructor(key, begun) {
    this.key = key;
    this.begun = begun;
    this.frames = new Map();
    this.first = 0;
    this.next = 0; // the first step that was not fetched yet
    this.asking = false;
  }

  frame(number) {
    return this.frames.get(number);
  }

  /** Sees to it that steps below `until` are here; one question at a time. Whether some came. */
  async fetch(until) {
    if (this.asking || this.next >= until) return false;
    this.asking = true;
    try {
      const count = Math.min(MOST_ASKED, until - this.next);
      const answer = await ask("/api/frames", { ...this.key, from: this.next, count });
      if (this.game !== undefined && this.game !== answer.game) {
        this.frames.clear();
        this.next = 0;
        this.game = undefined;
        this.begun();
        return true;
      }
      this.game = answer.game;
      for (const frame of answer.frames) {
        this.frames.set(frame.n, frame);
        this.next = frame.n + 1;
      }
      this.first = answer.first;
      for (const number of this.frames.keys()) {
        if (number >= this.first) break;
        this.frames.delete(number);
      }
      return true;
    } finally {
      this.asking = false;
    }
  }

  insight(number, of) {
    return ask("/api/insight", { ...this.key, n: number, of });
  }
}
