/* The generation player: <generation-player> with its runs as JSON inside. It keeps the place in a
   run and reacts to the reader; player_views.js draws. The element's own content, a table, stays
   for readers without scripts and for print. */
"use strict";
(function (course) {
  const { make, box, views, tell } = course.playerParts;
  const PACE_MS = 1200;
  const SWIPE_PX = 40;
  const KEPT = 8; // texts that are measured for the room they need
  const NOT_RIGHT = Infinity; // the place of an answer that was given and is wrong
  const BUTTONS = [
    ["first", "First", "M3 3h2v10H3zM13 3v10L6 8z"],
    ["back", "Back", "M11 3v10L4 8z"],
    ["play", "Play", "M4 2v12l9-6z"],
    ["forward", "Forward", "M5 3v10l7-5z"],
    ["last", "Last", "M3 3v10l7-5zM11 3h2v10h-2z"],
  ];
  const PAUSE = "M4 3h3v10H4zM9 3h3v10H9z";
  const KEYS = { ArrowRight: "forward", ArrowLeft: "back", Home: "first", End: "last" };
  let players = 0;

  /** A button with a drawn sign; its name is for who hears the page. */
  function button([action, name, path]) {
    const node = make("button", action);
    const sign = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", path);
    sign.setAttribute("viewBox", "0 0 16 16");
    sign.setAttribute("aria-hidden", "true");
    sign.append(line);
    node.append(sign);
    node.type = "button";
    node.setAttribute("aria-label", name);
    return node;
  }

  /** A control with its words. */
  function labelled(words, control, className) {
    return box("label", className, control, make("span", "", words));
  }

  class GenerationPlayer extends HTMLElement {
    connectedCallback() {
      const data = this.querySelector(':scope > script[type="application/json"]');
      if (this.shadowRoot) return;
      if (!data) return this.wait();
      const { runs, first } = JSON.parse(data.textContent);
      this.runs = runs;
      this.asks = true;
      this.answered = new Set();
      this.label = `player ${++players}`;
      this.build(first);
      this.open(first);
    }

    /** A parser that has read our opening tag only will bring the rest: begin when it is done. */
    wait() {
      if (document.readyState !== "loading") return;
      document.addEventListener("DOMContentLoaded", () => this.connectedCallback(), { once: true });
    }

    disconnectedCallback() {
      this.pause();
    }

    /** Lay out what is the same for every run. */
    build(first) {
      const style = make("style", "", course.playerStyle);
      this.buttons = Object.fromEntries(BUTTONS.map((row) => [row[0], button(row)]));
      this.slider = make("input");
      Object.assign(this.slider, { type: "range", min: 0, step: 1 });
      this.slider.setAttribute("aria-label", "Token");
      this.place = make("output", "place");
      this.placeSizer = make("span", "place sizer");
      this.placeSizer.setAttribute("aria-hidden", "true");
      this.note = make("p", "note");
      this.note.setAttribute("aria-live", "polite");
      this.noteSizer = make("div", "note stack sizer");
      this.noteSizer.setAttribute("aria-hidden", "true");
      this.stage = make("div", "stage");
      const ask = Object.assign(make("input"), { type: "checkbox", checked: true });
      ask.addEventListener("change", () => this.setAsking(ask.checked));
      const controls = box("div", "controls", ...Object.values(this.buttons));
      const asking = labelled("ask me first", ask, "ask");
      const place = box("div", "where stack", this.place, this.placeSizer);
      const top = box("div", "top", this.chooser(first), asking, place);
      const notes = box("div", "stack", this.noteSizer, this.note);
      const player = box("div", "player", top, controls, this.slider, notes, this.stage);
      player.setAttribute("role", "group");
      player.setAttribute("aria-label", `Generation ${this.label}`);
      this.attachShadow({ mode: "open" }).append(style, player, make("slot"));
      this.listen(player);
    }

    /** The choice of recorded prompts; one run needs none. */
    chooser(first) {
      if (this.runs.length === 1) return make("span");
      const select = make("select");
      this.runs.forEach((run) => select.append(make("option", "", run.prompt)));
      select.selectedIndex = first;
      select.addEventListener("change", () => this.open(select.selectedIndex));
      const label = box("label", "choose", make("span", "", "Recorded prompt"), select);
      return label;
    }

    listen(player) {
      for (const [action, node] of Object.entries(this.buttons)) {
        node.addEventListener("click", () => this.act(action));
      }
      this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
      player.addEventListener("keydown", (event) => this.key(event));
      player.addEventListener("touchstart", (event) => this.touchDown(event), { passive: true });
      player.addEventListener("touchend", (event) => this.swipe(event), { passive: true });
      window.addEventListener("beforeprint", () => {
        this.querySelectorAll("details").forEach((table) => (table.open = true));
      });
    }

    /** Take up a run from its beginning. */
    open(index) {
      this.pause();
      this.run = this.runs[index];
      this.index = index;
      this.views = views.map((view) => view(this.run));
      this.questions = new Map(this.run.questions.map((one) => [one, this.questionView(one)]));
      this.arrange(this.views.map((view) => view.node));
      this.slider.max = this.run.steps.length;
      this.reserve();
      this.go(0);
    }

    /** Keep room for the longest words that there will be; letters differ, so not for one alone. */
    reserve() {
      const { steps, questions } = this.run;
      const told = [0, ...steps.keys()].map((n) => tell(this.run, n));
      questions.forEach((one) => told.push(one.ask, this.verdict(one, NOT_RIGHT)));
      const longest = told.sort((a, b) => b.length - a.length).slice(0, KEPT);
      this.noteSizer.replaceChildren(...longest.map((words) => make("p", "", words)));
      this.placeSizer.textContent = this.placed(steps.length, true);
    }

    placed(n, asking) {
      return `${asking ? "before " : ""}token ${n} of ${this.run.steps.length}`;
    }

    /** Put the views in their places; the question stands where the candidates are. */
    arrange([text, facts, cache, candidates, clock, prompt]) {
      this.candidates = candidates;
      const right = box("div", "stack", candidates, ...this.questions.values());
      const made = make("p", "made", `Recorded: ${this.run.made_by}.`);
      this.stage.replaceChildren(text, box("div", "columns", facts, right), cache, clock, prompt, made);
    }

    /** Go to a number of tokens; where a question waits there, ask it first. */
    go(target) {
      this.n = Math.min(Math.max(target, 0), this.run.steps.length);
      const waiting = this.run.questions.find((one) => one.step === this.n);
      this.asking = this.asks && waiting && !this.answered.has(this.name(waiting)) ? waiting : null;
      if (this.asking) this.pause();
      this.show(this.asking ? this.asking.ask : tell(this.run, this.n));
    }

    name(question) {
      return `${this.index}/${question.step}`;
    }

    show(words) {
      const shown = this.asking ? this.n - 1 : this.n;
      this.dataset.shown = shown;
      this.views.forEach((view) => view.show(shown));
      this.note.textContent = words;
      this.slider.value = this.n;
      const total = this.run.steps.length;
      const place = this.placed(this.n, this.asking);
      this.place.textContent = place;
      this.slider.setAttribute("aria-valuetext", place);
      this.dim(["first", "back"], this.n === 0);
      this.dim(["forward", "last"], this.n === total && !this.asking);
      this.showQuestion();
    }

    /** Say that buttons do nothing here. They are not disabled: focus would be lost with them. */
    dim(names, idle) {
      names.forEach((name) => this.buttons[name].setAttribute("aria-disabled", String(idle)));
    }

    /** A question with its answers, built with the run so that there is room for the largest. */
    questionView(question) {
      const answers = question.answers.map((text) => make("button", "answer", text));
      const all = [...answers, make("button", "skip", "Show me")];
      all.forEach((node, index) => {
        node.type = "button";
        node.addEventListener("click", () => this.answer(index < answers.length ? index : -1));
      });
      return box("section", "question", make("h4", "", "Predict"), make("p", "", question.ask), ...all);
    }

    showQuestion() {
      const focused = this.shadowRoot.activeElement;
      this.questions.forEach((node, one) => node.classList.toggle("hidden", one !== this.asking));
      this.candidates.classList.toggle("hidden", Boolean(this.asking));
      // What is hidden loses the focus, and the keys with it.
      if (focused?.closest(".question.hidden")) this.buttons.forward.focus({ preventScroll: true });
    }

    /** Take an answer, −1 for none, and show what it was about. */
    answer(index) {
      const question = this.asking;
      if (!question) return; // answered already
      this.answered.add(this.name(question));
      this.asking = null;
      this.show(this.verdict(question, index));
      this.buttons.forward.focus({ preventScroll: true });
    }

    verdict(question, index) {
      const right = question.answers[question.right];
      const opening = index === question.right ? "Right: " : index < 0 ? "It is: " : "Not this time. It is: ";
      return `${opening}${right}. ${question.why}`;
    }

    setAsking(on) {
      this.asks = on;
      this.go(this.n);
    }

    act(action) {
      if (action === "play") return this.timer ? this.pause() : this.play();
      this.pause();
      if (action === "forward" && this.asking) return this.answer(-1);
      const targets = { first: 0, back: this.n - 1, forward: this.n + 1, last: this.run.steps.length };
      this.go(targets[action]);
    }

    play() {
      if (this.n === this.run.steps.length && !this.asking) this.go(0);
      if (this.asking) return;
      this.note.setAttribute("aria-live", "off");
      this.timer = setInterval(() => this.tick(), PACE_MS);
      this.face("Pause", PAUSE);
      this.go(this.n + 1);
    }

    tick() {
      this.go(this.n + 1);
      if (this.n === this.run.steps.length) this.pause();
    }

    pause() {
      if (!this.timer) return;
      clearInterval(this.timer);
      this.timer = null;
      this.note.setAttribute("aria-live", "polite");
      this.face("Play", BUTTONS[2][2]);
    }

    face(name, path) {
      this.buttons.play.setAttribute("aria-label", name);
      this.buttons.play.querySelector("path").setAttribute("d", path);
    }

    /** Arrow keys, Home and End, but where they mean something already. */
    key(event) {
      const own = event.target.matches('select, input[type="range"]');
      if (own || !KEYS[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.act(KEYS[event.key]);
    }

    /** One finger may be about to step; two of them zoom. */
    touchDown(event) {
      this.touch = event.touches.length > 1 ? null : event.changedTouches[0];
    }

    /** A finger drawn sideways steps; one drawn up or down scrolls the page as ever. */
    swipe(event) {
      const from = this.touch;
      if (!from || event.target.matches("input, select")) return;
      const across = event.changedTouches[0].clientX - from.clientX;
      const along = event.changedTouches[0].clientY - from.clientY;
      if (Math.abs(across) < SWIPE_PX || Math.abs(across) < 2 * Math.abs(along)) return;
      this.act(across < 0 ? "forward" : "back");
    }
  }

  if (!customElements.get("generation-player")) {
    customElements.define("generation-player", GenerationPlayer);
  }
})(globalThis.insideGenerate);
