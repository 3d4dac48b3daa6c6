// The plan of a turn while it is followed: the picture, with the state of each step.

import { dag } from "./dag.js";
import { make, replace } from "./dom.js";
import { some } from "./format.js";

export class PlanCard {
  constructor() {
    this.steps = [];
    this.title = make("summary", {}, "Plan");
    this.frame = make("div", { class: "dag-frame", tabindex: "0", role: "group", "aria-label": "Plan" });
    this.node = make("details", { class: "plan", open: true }, this.title, this.frame);
  }

  accept(plan) {
    this.steps = (plan?.steps ?? []).map((step) => ({ ...step }));
    this.#draw();
  }

  mark(id, status) {
    const step = this.steps.find((other) => other.id === id);
    if (!step) return;
    step.status = status;
    this.#draw();
  }

  #draw() {
    this.title.textContent = `Plan with ${some(this.steps.length, "step")}`;
    replace(this.frame, this.steps.length ? dag(this.steps) : null);
  }
}
