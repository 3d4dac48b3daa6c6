// The live feed of all events in the server's store. Reconnects by itself, continues after the last event, and marks the
// page as stale meanwhile. A hidden tab disconnects after a while: a browser has few connections for one server, and all
// tabs share them.

import { open } from "./api.js";
import { events } from "./sse.js";

const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 10_000;
const ABSENT_WAIT_MS = 60_000;
const SILENCE_MS = 45_000; // heartbeats come more often than this
const HIDDEN_MS = 30_000;

class Feed {
  state = "connecting"; // live, stale, absent, resting
  #last = "";
  #heard = new Set();
  #watched = new Set();
  #stop = null;
  #wake = () => {};
  #rest = null; // while the tab is hidden: the timer to disconnect
  #isResting = false;
  #letGo = () => {};

  /** Calls `hear(kind, data)`; returns a function that ends it. */
  listen(hear) {
    this.#heard.add(hear);
    return () => this.#heard.delete(hear);
  }

  watch(see) {
    this.#watched.add(see);
    see(this.state);
    return () => this.#watched.delete(see);
  }

  start() {
    if (this.#stop) return;
    this.#stop = new AbortController();
    window.addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => this.#look());
    this.#run(this.#stop.signal);
  }

  #look() {
    clearTimeout(this.#rest);
    if (document.hidden) {
      this.#rest = setTimeout(() => {
        this.#isResting = true;
        this.#letGo();
      }, HIDDEN_MS);
      return;
    }
    this.#isResting = false;
    this.#wake();
  }

  async #run(stopped) {
    let wait = FIRST_WAIT_MS;
    while (!stopped.aborted) {
      const before = this.#last;
      const absent = await this.#connect(stopped);
      if (this.#last !== before) wait = FIRST_WAIT_MS;
      this.#become(this.#isResting ? "resting" : absent ? "absent" : "stale");
      while (this.#isResting) await this.#pause(ABSENT_WAIT_MS);
      if (this.state !== "resting") await this.#pause(absent ? ABSENT_WAIT_MS : wait);
      wait = Math.min(wait * 2, MOST_WAIT_MS);
    }
  }

  /** Runs until the connection ends; returns true where the server has no feed. */
  async #connect(stopped) {
    const silent = new AbortController();
    this.#letGo = () => silent.abort();
    let timer = setTimeout(() => silent.abort(), SILENCE_MS);
    try {
      const headers = this.#last ? { "last-event-id": this.#last } : {};
      const reply = await open("GET", "/v1/events", undefined, AbortSignal.any([stopped, silent.signal]), headers);
      this.#become("live");
      for await (const event of events(reply)) {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENCE_MS);
        this.#take(event);
      }
    } catch (error) {
      return error.status === 404;
    } finally {
      clearTimeout(timer);
    }
    return false;
  }

  #take(event) {
    if (event.id) this.#last = event.id;
    if (!event.data) return;
    let data;
    try {
      data = JSON.parse(event.data);
    } catch {
      return; // one invalid line does not end the feed
    }
    for (const hear of [...this.#heard]) hear(event.event, data);
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    for (const see of [...this.#watched]) see(state);
  }

  #pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

export const feed = new Feed();
